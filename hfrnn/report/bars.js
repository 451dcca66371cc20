// Bar charts (why CG ended; the time of the updates) and tables.

const STOPS = {
  progress: "little progress", mu_growth: "damping would grow", max_iterations: "most iterations reached", residual: "solved",
  no_gain: "no descent direction", curvature: "curvature not positive", non_finite: "not finite",
};
const PARTS = {
  gradient: "gradient", products: "products", rest_of_cg: "CG vectors", search: "trial losses",
  preconditioner: "preconditioner", validation: "validation", steps: "steps", rest: "saving and other work",
};

/** A legend: colour swatches with names. */
function key(names, all) {
  const numbers = Object.keys(all);
  return make("ul", { class: "key" }, names.map((name) => {
    const swatch = make("i", { class: "swatch", style: `background: ${shade(numbers.indexOf(name))}` });
    return make("li", {}, swatch, all[name]);
  }));
}

/** A table with its own scroll bar: a head for each column, and rows of a head and texts. */
function table(name, heads, rows) {
  const line = ({ head, cells, kind }) => make("tr", { class: kind || null },
    make("th", { scope: "row" }, head), cells.map((cell) => make("td", {}, cell)));
  const top = heads.length ? make("thead", {}, make("tr", {}, make("td"), heads.map((head) => make("th", { scope: "col" }, head)))) : null;
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, make("table", {}, top, make("tbody", {}, rows.map(line))));
}

const runHead = (run) => make("span", {}, make("i", { class: "run swatch", style: `background: ${colour(run.number)}` }),
  RUNS.length > 1 ? `${run.letter} ` : null, make("bdi", {}, run.name));

/** Content that is made again whenever other runs are shown. */
function renewed(host, content, whole = false) {
  const place = make("div", { class: whole ? "whole" : null });
  host.append(place);
  drawings.push({ render: () => place.replaceChildren(...[content()].flat().filter((child) => child !== null)) });
}

/** One row per run, coloured by why CG ended. */
class Strip extends Panel {
  constructor(host) {
    super(host, "Why CG ended", "", 0);
  }

  render() {
    this.height = 50 + 24 * Math.max(1, visible().filter((run) => run.columns.cg_stop).length);
    super.render();
  }

  picture(width) {
    [this.left, this.right, this.top, this.bottom] = [RUNS.length > 1 ? 24 : 12, width - 14, 8, this.height - 38];
    this.runs = visible().filter((run) => run.columns.cg_stop);
    this.across(this.runs);
    const names = Object.keys(STOPS), parts = [];
    this.runs.forEach((run, row) => {
      const y = this.top + 24 * row, xs = this.pixels.get(run);
      if (RUNS.length > 1) parts.push(draw("text", { class: "letter", x: 6, y: y + 15, style: `--c: ${colour(run.number)}` }, run.letter));
      for (const [from, to, name] of pieces(xs, run.columns.cg_stop, this.left)) {
        parts.push(draw("rect", { x: from, y: y + 2, width: Math.max(to - from, 0.5), height: 18, style: `fill: ${shade(names.indexOf(name))}` }));
      }
    });
    return [...this.axes(this.x, null), ...parts];
  }

  read(pixel) {
    const rows = [];
    let x = pixel;
    for (const run of this.runs) {
      const xs = this.pixels.get(run), n = nearest(xs, pixel), name = run.columns.cg_stop[n];
      if (n < 0) continue;
      x = xs[n];
      const words = make("div", { class: "values" }, make("span", {}, STOPS[name] || name || "–"));
      rows.push(make("div", { "data-run": run.number, "data-update": column(run, "update")[n] }, this.head(run, n), words));
    }
    return { x, dots: [], rows };
  }
}

/** Pieces [from, to, name] in whole pixels; a pixel gets the name that covers most of it. Name n ends at xs[n], which is
 *  null if that is not known. */
function pieces(xs, names, left) {
  const pixels = [];
  names.forEach((name, n) => {
    const [from, to] = [n ? xs[n - 1] ?? xs[n] : left, xs[n]];
    for (let at = Math.floor(from); to !== null && name !== null && at < to; at++) {
      const share = (pixels[at] ||= new Map());
      share.set(name, (share.get(name) || 0) + Math.min(at + 1, to) - Math.max(at, from));
    }
  });
  const found = [];
  pixels.forEach((share, at) => {
    const name = [...share].reduce((a, b) => (b[1] > a[1] ? b : a))[0], last = found.at(-1);
    if (last && last[2] === name && last[1] === at) last[1] = at + 1;
    else found.push([at, at + 1, name]);
  });
  return found;
}

/** How often CG ended for each reason, for every run. */
function stopTable() {
  const runs = visible().filter((run) => run.columns.cg_stop);
  const counts = runs.map((run) => tally(run.columns.cg_stop.filter((name) => name !== null)));
  const names = Object.keys(STOPS).filter((name) => counts.some((count) => count[name]));
  const rows = names.map((name) => ({
    head: key([name], STOPS),
    cells: counts.map((count) => share(count[name] || 0, Object.values(count).reduce((a, b) => a + b, 0), figure)),
  }));
  return runs.length ? table("Why CG ended", runs.map(runHead), rows) : null;
}

const tally = (names) => names.reduce((count, name) => ({ ...count, [name]: (count[name] || 0) + 1 }), {});
const share = (part, whole, text) => (part ? `${text(part)} (${whole ? Math.round((100 * part) / whole) : 0}%)` : "–");

/** The seconds of every part of the work, for each record of metrics.jsonl. */
function parts(run) {
  const of = (name) => column(run, `seconds_${name}`), whole = of("update");
  const rest = (taken) => whole.map((value, n) => Math.max(0, value - taken.reduce((sum, each) => sum + (each[n] || 0), 0)));
  if (!run.columns.seconds_gradient) return { steps: rest([of("validation")]), validation: of("validation") };
  const found = { gradient: of("gradient"), products: of("products") };
  found.rest_of_cg = of("cg").map((value, n) => Math.max(0, value - (found.products[n] || 0)));
  for (const name of ["search", "preconditioner", "validation"]) found[name] = of(name);
  return { ...found, rest: rest(Object.values(found)) };
}

/** The seconds of a run's updates as stacked columns. */
class Stack extends Panel {
  constructor(host, run) {
    super(host, RUNS.length > 1 ? `${run.letter} ${run.name}` : "Time", "", 210);
    this.unit.textContent = run.columns.cg_stop ? "seconds per update" : "seconds per record";
    this.run = run;
    this.parts = parts(run);
    this.names = Object.keys(this.parts).filter((name) => this.parts[name].some((value) => value > 0));
    this.plot.before(key(this.names, PARTS));
  }

  render() {
    this.figure.hidden = !this.run.on;
    super.render();
  }

  over() {
    return "updates";
  }

  picture(width) {
    [this.left, this.right, this.top, this.bottom] = [44, width - 14, 12, this.height - 38];
    const updates = column(this.run, "update"), lines = updates.length;
    const each = Math.max(1, Math.ceil(lines / ((this.right - this.left) / 3)));
    this.bins = [];
    for (let from = 0; from < lines; from += each) {
      const to = Math.min(from + each, lines), mean = {};
      for (const name of this.names) mean[name] = this.parts[name].slice(from, to).reduce((a, b) => a + (b || 0), 0) / (to - from);
      this.bins.push({ from, to, mean, sum: Object.values(mean).reduce((a, b) => a + b, 0) });
    }
    this.note.textContent = each > 1 ? `Each column is the mean of ${each} records.` : "";
    this.x = scale("whole", 0, Math.max(1, updates.at(-1) || 0), this.left, this.right, 60);
    const y = scale("linear", 0, this.bins.reduce((high, bin) => Math.max(high, bin.sum), 1e-6), this.bottom, this.top, 38);
    this.left = 12 + 6.6 * Math.max(...y.ticks.map((tick) => tick[1].length));
    this.x = scale("whole", 0, Math.max(1, updates.at(-1) || 0), this.left, this.right, 60);
    const numbers = Object.keys(PARTS), bars = [];
    for (const bin of this.bins) {
      [bin.x0, bin.x1] = [this.x.at(bin.from ? updates[bin.from - 1] : 0), this.x.at(updates[bin.to - 1])];
      let sum = 0;
      for (const name of this.names) {
        const [y1, y0] = [y.at(sum), y.at(sum += bin.mean[name])], gap = bin.x1 - bin.x0 > 4 ? 1 : 0;
        if (y1 > y0) bars.push(draw("rect", { x: bin.x0, y: y0, width: Math.max(bin.x1 - bin.x0 - gap, 0.5), height: y1 - y0, style: `fill: ${shade(numbers.indexOf(name))}` }));
      }
    }
    this.stops = this.bins.map((bin) => (bin.x0 + bin.x1) / 2);
    return [...this.axes(this.x, y), ...bars];
  }

  read(pixel) {
    const n = nearest(this.stops, pixel), bin = this.bins[n];
    const values = this.names.map((name) => make("span", {}, `${PARTS[name]} ${figure(bin.mean[name])} s`));
    return { x: this.stops[n], dots: [], rows: [make("div", {}, this.head(this.run, bin.to - 1), make("div", { class: "values" }, values))] };
  }
}

/** The total time of every part of the work, for every run. */
function timeTable() {
  const runs = visible().filter((run) => run.columns.seconds_update);
  const sums = runs.map((run) => Object.fromEntries(Object.entries(parts(run)).map(([name, values]) => [name, values.reduce((a, b) => a + (b || 0), 0)])));
  const names = Object.keys(PARTS).filter((name) => sums.some((sum) => sum[name] > 0));
  const seconds = (value) => `${value.toFixed(1)} s`;
  const rows = names.map((name) => ({
    head: key([name], PARTS),
    cells: sums.map((sum) => share(sum[name], Object.values(sum).reduce((a, b) => a + b, 0), seconds)),
  }));
  return runs.length ? table("Where the time went", runs.map(runHead), rows) : null;
}
