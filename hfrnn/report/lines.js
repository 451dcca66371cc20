// Line charts of the fields of metrics.jsonl over updates, time or symbols, with a cursor for pointer and keyboard.

/** A drawing with a title and a cursor. A subclass has `picture(width)`, which returns SVG elements and sets `stops`
 *  (the pixels that the arrow keys visit), and `read(pixel)`, which returns what the cursor shows there. */
class Panel {
  constructor(host, title, unit, height) {
    this.height = height;
    this.stops = [];
    this.pixel = null;
    this.unit = make("span", { class: "unit" }, unit);
    this.tip = make("div", { class: "tip", hidden: true });
    this.heard = make("p", { class: "unseen", "aria-live": "polite" });
    this.note = make("p", { class: "note" });
    this.svg = draw("svg", {
      tabindex: 0, role: "img", "aria-label": `${title}; the arrow keys read the values`,
      pointermove: (event) => this.move(event.clientX - this.svg.getBoundingClientRect().left),
      pointerdown: (event) => this.move(event.clientX - this.svg.getBoundingClientRect().left),
      pointerleave: () => this.leave(), blur: () => this.leave(), keydown: (event) => this.key(event),
    });
    this.plot = make("div", { class: "plot" }, this.svg, this.tip);
    this.figure = make("figure", { class: "panel" }, make("h3", {}, `${title} `, this.unit), this.note, this.plot, this.heard);
    host.append(this.figure);
    drawings.push(this);
    new ResizeObserver(() => this.plot.clientWidth !== this.width && this.render()).observe(this.plot);
  }

  render() {
    this.width = this.plot.clientWidth;
    if (!this.width) return;
    this.leave();
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("height", this.height);
    this.cursor = draw("g", { class: "cursor" });
    this.svg.replaceChildren(...this.picture(this.width), this.cursor);
  }

  /** Show the values nearest to a pixel. */
  move(pixel) {
    if (!this.stops.length) return;
    this.pixel = pixel;
    const { x, dots, rows } = this.read(pixel);
    this.cursor.replaceChildren(
      draw("line", { x1: x, x2: x, y1: this.top, y2: this.bottom }),
      ...dots.map(([cx, cy, number]) => draw("circle", { cx, cy, r: 4, style: `fill: ${colour(number)}` })),
    );
    this.tip.hidden = false;
    this.tip.replaceChildren(...rows);
    const wide = this.tip.offsetWidth, left = x > this.width / 2 ? x - wide - 12 : x + 12;
    this.tip.style.left = `${Math.max(0, Math.min(left, this.width - wide))}px`;
  }

  leave() {
    this.pixel = null;
    this.tip.hidden = true;
    this.cursor?.replaceChildren();
  }

  key(event) {
    const last = this.stops.length - 1, page = Math.max(1, Math.round(last / 10));
    const at = this.pixel === null ? -1 : nearest(this.stops, this.pixel);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: last }[event.key];
    if (event.key === "Escape") this.leave();
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.move(this.stops[Math.max(0, Math.min(to, last))]);
    this.heard.textContent = [...this.tip.children].map((row) => row.innerText.replace(/\s+/g, " ")).join("; ");
  }

  /** The two axes of a chart with ticks, labels and grid lines. */
  axes(x, y) {
    const parts = [];
    for (const [value, label] of y ? y.ticks : []) {
      parts.push(draw("line", { class: "grid", x1: this.left, x2: this.right, y1: y.at(value), y2: y.at(value) }));
      parts.push(draw("text", { x: this.left - 6, y: y.at(value) + 4, "text-anchor": "end" }, label));
    }
    for (const [value, label] of x.ticks) {
      parts.push(draw("line", { class: "tick", x1: x.at(value), x2: x.at(value), y1: this.bottom, y2: this.bottom + 4 }));
      parts.push(draw("text", { x: x.at(value), y: this.bottom + 16, "text-anchor": "middle" }, label));
    }
    parts.push(draw("line", { class: "axis", x1: this.left, x2: this.right, y1: this.bottom, y2: this.bottom }));
    parts.push(draw("text", { class: "name", x: this.right, y: this.bottom + 31, "text-anchor": "end" }, this.over()));
    return parts;
  }

  over() {
    return AXES[chosen.axis];
  }

  /** Set `x`, the scale of the chosen horizontal axis; `pixels`, where each record of these runs is, null if it has no
   *  value on this axis; and `stops`. */
  across(runs) {
    const kind = { update: "whole", seconds: "time", symbols: "linear" }[chosen.axis], [low, high] = extent(runs.flatMap((run) => column(run, chosen.axis)));
    this.x = scale(kind, Math.min(low, 0), Math.max(high, 0) || 1, this.left, this.right, 60);
    const at = (value) => (value === null || value === undefined ? null : this.x.at(value));
    this.pixels = new Map(runs.map((run) => [run, column(run, "update").map((_, n) => at(column(run, chosen.axis)[n]))]));
    this.stops = [...new Set([...this.pixels.values()].flat())].filter((pixel) => pixel !== null).sort((a, b) => a - b);
  }

  /** The first line of a run in the cursor's box. */
  head(run, n) {
    const seconds = column(run, "seconds")[n] ?? null;
    const where = `update ${figure(column(run, "update")[n])}${seconds === null ? "" : `, ${clock(seconds)}`}`;
    const name = RUNS.length > 1 ? make("b", {}, `${run.letter} `, make("bdi", {}, run.name)) : null;
    return make("div", { class: "head" }, make("i", { class: "run swatch", style: `background: ${colour(run.number)}` }), name, where);
  }
}

/** Curves of some columns. A series has a name, a key or of(run), dash, and join: whether to draw across missing values. */
class Lines extends Panel {
  constructor(host, spec) {
    super(host, spec.title, spec.unit || "", spec.height || 230);
    this.spec = { format: figure, kind: "auto", ...spec };
    this.bests = make("ul", { class: "key" });
    this.plot.before(this.bests);
  }

  values(run, series) {
    return series.of ? series.of(run) : column(run, series.key);
  }

  /** The kind of the vertical scale: the chart's own, or the one that the reader chose if the values allow it. */
  kind(values) {
    const own = this.spec.kind === "auto" ? suited(values) : this.spec.kind;
    if (chosen.scale === "log") return own === "log" || (!this.spec.clamp && values.every((value) => value > 0)) ? "log" : own;
    return chosen.scale === "linear" ? "linear" : own;
  }

  picture(width) {
    const { spec } = this, all = [];
    this.curves = visible().flatMap((run) => spec.series.map((series) => ({ run, series, values: this.values(run, series) })))
      .filter(({ run, values }) => values.some((value, n) => value !== null && (column(run, chosen.axis)[n] ?? null) !== null));
    for (const { values } of this.curves) for (const value of values) if (value !== null) all.push(value);
    const kind = this.kind(all), shown = kind === "log" ? all.filter((value) => value > 0) : all;
    let [low, high] = extent(shown);
    [this.top, this.bottom, this.right] = [12, this.height - 38, width - (RUNS.length > 1 ? 28 : 14)];
    this.figure.classList.toggle("empty", !shown.length);
    this.note.textContent = spec.note || "";
    this.bests.replaceChildren();
    if (!shown.length) {
      this.stops = [];
      return [draw("text", { x: width / 2, y: this.height / 2, "text-anchor": "middle" }, "no data")];
    }
    if (spec.clamp) [low, high] = [Math.max(Math.min(low, spec.span[0]), spec.clamp[0]), Math.min(Math.max(high, spec.span[1]), spec.clamp[1])];
    else if (spec.span && kind !== "log") [low, high] = [Math.min(low, spec.span[0]), Math.max(high, spec.span[1])];
    this.y = scale(kind, low, high, this.bottom - 6, this.top, 38);
    if (spec.percent) labels(this.y.ticks.map(([value]) => 100 * value), kind).forEach((label, n) => (this.y.ticks[n][1] = `${label}%`));
    this.left = 12 + 6.6 * Math.max(1, ...this.y.ticks.map((tick) => tick[1].length));
    const runs = [...new Set(this.curves.map((curve) => curve.run))];
    this.across(runs);
    this.unit.textContent = [spec.unit, kind === "log" ? "logarithmic" : ""].filter(Boolean).join(", ");
    const curves = this.curves.flatMap((curve) => this.curve(curve));
    return [...this.axes(this.x, this.y), ...this.guides(), ...curves, ...runs.flatMap((run) => this.marks(run)), ...this.best(), ...this.ends()];
  }

  guides() {
    return (this.spec.guides || []).filter((value) => value > this.y.low && value < this.y.high).map((value) =>
      draw("line", { class: "guide", x1: this.left, x2: this.right, y1: this.y.at(value), y2: this.y.at(value) }));
  }

  /** The vertical position of a value, kept inside the frame; null if it cannot be drawn. */
  height_of(value) {
    if (value === null || value === undefined || (this.y.kind === "log" && !(value > 0))) return null;
    return this.y.at(Math.max(this.y.low, Math.min(value, this.y.high)));
  }

  curve(curve) {
    const { run, series, values } = curve, xs = this.pixels.get(run), pieces = [[]], parts = [];
    curve.points = [];
    values.forEach((value, n) => {
      const at = this.height_of(value);
      if (xs[n] === null) return;
      if (at !== null) {
        const point = [xs[n], at, n];
        pieces.at(-1).push(point);
        curve.points.push(point);
      } else if (!series.join && pieces.at(-1).length) pieces.push([]);
    });
    const drawn = (curve.drawn = pieces.map(thin)), hue = `--c: ${colour(run.number)}`;
    const path = drawn.filter((piece) => piece.length).map((piece) => `M${piece.map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`).join("L")}`).join("");
    const dense = curve.points.length > 2 * (this.right - this.left);
    parts.push(draw("path", {
      class: `curve${series.thin ? " thin" : ""}${dense ? " dense" : ""}`, d: path, style: hue, "stroke-dasharray": series.dash || null, "data-run": run.number,
      "data-series": series.name, "data-points": curve.points.length,
    }));
    const sparse = !series.thin && curve.points.length <= (this.right - this.left) / 14;
    const lone = drawn.filter((piece) => piece.length === 1).map((piece) => piece[0]);
    for (const [cx, cy] of sparse ? curve.points : lone) parts.push(draw("circle", { class: series.dash ? "dot open" : "dot", cx, cy, r: 2.2, style: hue }));
    if (this.spec.clamp) {
      const lost = values.map((value, n) => (this.spec.lost?.(run, n) ? this.y.low - 1 : value));
      const off = (test, at, shape) => spaced(lost.flatMap((value, n) => (value !== null && xs[n] !== null && test(value) ? [xs[n]] : [])), 6)
        .map((x) => draw("path", { class: "off", d: `M${x - 4} ${at}h8l-4 ${shape}z`, style: hue }));
      parts.push(...off((value) => value < this.y.low, this.bottom - 5, 5), ...off((value) => value > this.y.high, this.top + 5, -5));
    }
    return parts;
  }

  /** Marks of failed updates and of resumed runs. */
  marks(run) {
    const xs = this.pixels.get(run), hue = `--c: ${colour(run.number)}`, parts = [];
    for (const x of run.resumed.map((n) => xs[n]).filter((pixel) => pixel !== null)) {
      parts.push(draw("path", { class: "resumed", d: `M${x} ${this.bottom - 8}l-4 8h8z`, style: hue }, draw("title", {}, "resumed")));
    }
    if (this.spec.failed) {
      const failed = column(run, "failed").flatMap((value, n) => (value === null ? [] : [n])), key = this.spec.series.at(-1);
      const values = this.values(run, key);
      const placed = failed.map((n) => [xs[n], this.height_of(values[n])]).filter((point) => !point.includes(null));
      for (const [x, y] of spaced(placed, 5)) parts.push(draw("path", { class: "failed", d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`, style: hue }, draw("title", {}, "failed")));
    }
    return parts;
  }

  /** A ring around the lowest value of each run's first series, and these values in words above the plot. */
  best() {
    if (!this.spec.best) return [];
    const found = visible().flatMap((run) => {
      const curve = this.curves.find((each) => each.run === run && each.series === this.spec.series[0]);
      const points = curve ? curve.points.filter(([, , n]) => curve.values[n] === extent(curve.values)[0]) : [];
      return points.length ? [{ run, point: points[0], value: curve.values[points[0][2]] }] : [];
    });
    const least = RUNS.length > 1 && !this.spec.unit.includes(" or ") ? extent(found.map(({ value }) => value))[0] : null;
    this.bests.replaceChildren(...found.map(({ run, point, value }, n) => make("li", {}, n ? null : "○ best",
      RUNS.length > 1 ? [make("i", { class: "run swatch", style: `background: ${colour(run.number)}` }), run.letter] : null,
      make(value === least ? "b" : "span", {}, figure(value)), `at update ${figure(column(run, "update")[point[2]])}`)));
    return found.map(({ run, point: [cx, cy], value }) => draw("circle", { class: "best", cx, cy, r: 5, style: `--c: ${colour(run.number)}` },
      draw("title", {}, `best ${figure(value)}`)));
  }

  /** The letter of each run beside the end of its first curve: in one column if the curve ends at the right edge, else
   *  near its end, where it covers no curve and no other letter. A line ties a letter to an end that is not beside it. */
  ends() {
    if (RUNS.length < 2) return [];
    const ends = visible().map((run) => this.curves.find((each) => each.run === run && each.points.length)).filter(Boolean)
      .map((curve) => ({ run: curve.run, x: curve.points.at(-1)[0], y: curve.points.at(-1)[1] })).sort((a, b) => a.y - b.y);
    const taken = covered(this.curves.flatMap((curve) => curve.drawn)), edge = ends.filter(({ x }) => this.right - x < 16);
    spread(edge.map(({ y }) => y), this.top + 6, this.bottom - 6).forEach((y, n) => (edge[n].at = [this.right + 19, y]));
    return ends.flatMap(({ run, x, y, at }) => {
      const [cx, cy] = at || free(x, y, taken, [this.left, this.top - 4, this.right, this.bottom]), hue = `--c: ${colour(run.number)}`;
      for (const cell of cells(cx - 6, cy - 7, cx + 6, cy + 7)) taken.set(cell, 20);
      const away = Math.hypot(cx - x, cy - y), share = (away - 7) / away, beside = at ? this.right - x < 4 && Math.abs(cy - y) < 3 : away < 14;
      return [
        beside ? null : draw("line", { class: "leader", x1: x, y1: y, x2: x + share * (cx - x), y2: y + share * (cy - y), style: hue }),
        draw("circle", { class: "dot", cx: x, cy: y, r: 2.5, style: hue }),
        draw("text", { class: "letter", x: cx, y: cy + 4, "text-anchor": "middle", style: hue, "data-run": run.number }, run.letter),
      ].filter(Boolean);
    });
  }

  read(pixel) {
    const rows = [], dots = [];
    let [x, least] = [pixel, Infinity];
    for (const run of visible()) {
      const xs = this.pixels.get(run) || [], mine = this.curves.filter((curve) => curve.run === run), n = nearest(xs, pixel);
      if (n < 0) continue;
      if (Math.abs(xs[n] - pixel) < least) [x, least] = [xs[n], Math.abs(xs[n] - pixel)];
      const texts = mine.map(({ series, values }) => {
        const m = series.join ? measured(values, n) : n;
        const y = this.height_of(values[m]);
        if (y !== null && xs[m] !== null) dots.push([xs[m], y, run.number]);
        const late = m === n || y === null ? "" : ` (update ${figure(column(run, "update")[m])})`;
        const label = this.spec.series.length > 1 ? `${series.name} ` : "";
        return make("span", { "data-series": series.name }, `${label}${this.spec.format(values[m])}${late}`);
      });
      const more = this.spec.more?.(run, n);
      const words = [more, column(run, "failed")[n] && `failed: ${column(run, "failed")[n].replaceAll("_", " ")}`].filter(Boolean);
      const row = make("div", { "data-run": run.number, "data-update": column(run, "update")[n] }, this.head(run, n));
      row.append(make("div", { class: "values" }, ...texts, ...words.map((word) => make("span", {}, word))));
      rows.push(row);
    }
    return { x, dots, rows };
  }
}

// ---------------------------------------------------------------- room for letters

const CELL = 4; // pixels

/** The cells that a rectangle touches. */
function cells(x0, y0, x1, y1) {
  const found = [];
  for (let x = Math.floor(x0 / CELL); x <= Math.floor(x1 / CELL); x++) {
    for (let y = Math.floor(y0 / CELL); y <= Math.floor(y1 / CELL); y++) found.push(`${x} ${y}`);
  }
  return found;
}

/** The cells under some curves, with the cost of covering each. */
function covered(curves) {
  const taken = new Map();
  for (const points of curves) {
    points.forEach(([x, y], n) => {
      const [x0, y0] = n ? points[n - 1] : [x, y], steps = Math.ceil(Math.hypot(x - x0, y - y0) / CELL) + 1;
      for (let step = 0; step <= steps; step++) {
        const [px, py] = [x0 + (step / steps) * (x - x0), y0 + (step / steps) * (y - y0)];
        taken.set(cells(px, py, px, py)[0], 1);
      }
    });
  }
  return taken;
}

/** Rising positions moved apart as little as possible, between two bounds. */
function spread(wanted, low, high) {
  const gap = Math.min(13, (high - low) / Math.max(1, wanted.length - 1)), groups = [];
  for (const y of wanted) {
    let group = { count: 1, start: y };
    for (let last = groups.at(-1); last && last.start + last.count * gap > group.start; last = groups.at(-1)) {
      const count = last.count + group.count; // both together start where the mean of what is wanted is kept
      group = { count, start: (last.count * last.start + group.count * (group.start - last.count * gap)) / count };
      groups.pop();
    }
    groups.push(group);
  }
  const found = groups.flatMap(({ count, start }) => Array.from({ length: count }, (_, n) => start + n * gap));
  for (let n = 0; n < found.length; n++) found[n] = Math.max(found[n], low + n * gap);
  return found.map((y, n) => Math.min(y, high - (found.length - 1 - n) * gap));
}

/** The centre of a letter near the end (x, y) of a curve: inside the frame, covering as little as possible. */
function free(x, y, taken, [left, top, right, bottom]) {
  let [best, least] = [[x, y], Infinity];
  for (const far of [12, 20, 28, 38, 50]) {
    for (const turn of [0, -1, 1, -2, 2, -3, 3, 4]) {
      const [cx, cy] = [x + far * Math.cos((turn * Math.PI) / 4), y + far * Math.sin((turn * Math.PI) / 4)];
      if (cx < left + 6 || cx > right - 6 || cy < top + 7 || cy > bottom - 7) continue;
      const cost = cells(cx - 6, cy - 7, cx + 6, cy + 7).reduce((sum, cell) => sum + (taken.get(cell) || 0), far / 20 + Math.abs(turn) / 20);
      if (cost < least) [best, least] = [[cx, cy], cost];
    }
  }
  return best;
}

/** The index of the last value at or before n; if there is none, of the first value. */
function measured(values, n) {
  for (let m = n; m >= 0; m--) if (values[m] !== null) return m;
  return Math.max(0, values.findIndex((value) => value !== null));
}

/** Drop points (or pixels) that are closer than `least` pixels to the last kept one. */
function spaced(points, least) {
  let last = -Infinity;
  return points.filter((point) => {
    const x = Array.isArray(point) ? point[0] : point, far = x - last >= least;
    if (far) last = x;
    return far;
  });
}
