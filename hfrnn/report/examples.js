// Validation sequences: the targets and predictions of some outputs.

const LANES = [150, 108, 84]; // pixels of a lane, with 1, 2 and 3 outputs

const CLOSE = 1e-3; // relative difference of two targets with five digits that are the same value

/** One sequence of a run: a lane for each output, over the steps of the sequence. `ranges` are those of the outputs. */
class Trace extends Panel {
  constructor(host, run, number, ranges) {
    const { outputs, sequences } = run.examples, { targets, predictions } = sequences[number];
    const lanes = outputs.map((name, k) => ({
      name,
      series: [{ name: "target", values: targets[k], hue: "--c: var(--faint)" }, { name: "prediction", values: predictions[k], hue: `--c: ${colour(run.number)}` }],
    }));
    super(host, `Sequence ${number + 1}`, RUNS.length > 1 ? `run ${run.letter}` : "", lanes.length * LANES[lanes.length - 1] + 42);
    this.run = run;
    this.lane = LANES[lanes.length - 1];
    this.lanes = lanes;
    this.ranges = ranges;
    this.steps = Math.max(...lanes.flatMap((lane) => lane.series.map((series) => series.values.length)));
    this.plot.before(make("ul", { class: "key" }, lanes[0].series.map((series) => {
      const sample = draw("svg", { width: 24, height: 8, "aria-hidden": "true" }, draw("path", { class: "curve", d: "M0 4h24", style: series.hue }));
      return make("li", {}, sample, series.name);
    })));
  }

  over() {
    return "step";
  }

  render() {
    this.figure.hidden = !this.run.on;
    super.render();
  }

  picture(width) {
    [this.top, this.bottom, this.right] = [8, this.height - 38, width - 14];
    this.scales = this.ranges.map(([low, high], n) => {
      const from = this.top + (n + 1) * this.lane - 14, to = this.top + n * this.lane + 18;
      return low <= high ? scale("linear", low, high, from, to, 16) : null;
    });
    const ticks = this.scales.flatMap((y) => (y ? y.ticks : []));
    this.left = 12 + 6.6 * Math.max(1, ...ticks.map(([, label]) => label.length));
    this.x = scale("whole", 1, Math.max(2, this.steps), this.left, this.right, 60);
    this.stops = Array.from({ length: this.steps }, (_, n) => this.x.at(n + 1));
    return [...this.axes(this.x, null), ...this.lanes.flatMap((lane, n) => this.drawn(lane, this.scales[n], n))];
  }

  drawn(lane, y, n) {
    const parts = [draw("text", { class: "name", x: this.left, y: this.top + n * this.lane + 10 }, lane.name)];
    if (!y) return parts;
    for (const [value, label] of y.ticks) {
      parts.push(draw("line", { class: "grid", x1: this.left, x2: this.right, y1: y.at(value), y2: y.at(value) }));
      parts.push(draw("text", { x: this.left - 6, y: y.at(value) + 4, "text-anchor": "end" }, label));
    }
    return [...parts, ...lane.series.flatMap((series) => this.curve(lane, series, y))];
  }

  /** The curve of a series, with a dot for each value between two missing ones. */
  curve(lane, series, y) {
    const pieces = [[]];
    series.values.forEach((value, step) => {
      if (value !== null) pieces.at(-1).push([this.stops[step], y.at(value), step]);
      else if (pieces.at(-1).length) pieces.push([]);
    });
    const d = pieces.map(thin).filter((piece) => piece.length).map((piece) => `M${piece.map(([px, py]) => `${px.toFixed(2)} ${py.toFixed(2)}`).join("L")}`).join("");
    const lone = pieces.filter((piece) => piece.length === 1).map((piece) => piece[0]), count = series.values.filter((value) => value !== null).length;
    return [
      draw("path", { class: "curve trace", d, style: series.hue, "data-run": this.run.number, "data-series": `${lane.name}, ${series.name}`, "data-points": count }),
      ...lone.map(([cx, cy]) => draw("circle", { class: "dot", cx, cy, r: 3, style: series.hue })),
    ];
  }

  read(pixel) {
    const step = nearest(this.stops, pixel), dots = [];
    const rows = this.lanes.map((lane, n) => {
      const texts = lane.series.map((series) => {
        const value = series.values[step];
        if (value !== null && value !== undefined && this.scales[n]) dots.push([this.stops[step], this.scales[n].at(value), this.run.number]);
        return make("span", {}, `${series.name} ${figure(value)}`);
      });
      return make("div", {}, make("div", { class: "head" }, lane.name), make("div", { class: "values" }, ...texts));
    });
    return { x: this.stops[step], dots, rows: [make("div", { class: "head" }, `step ${step + 1}`), ...rows] };
  }
}

/** Whether two runs predict the same sequences; the steps that are scored may differ. */
function sameSequences(one, other) {
  const [a, b] = [one.examples, other.examples];
  const same = (x, y) => x === null || y === null || Math.abs(x - y) <= CLOSE * Math.max(Math.abs(x), Math.abs(y));
  const alike = (x, y) => x.length === y.length && x.every((each, n) => (Array.isArray(each) ? alike(each, y[n]) : same(each, y[n])));
  const targets = (all) => all.sequences.map((each) => each.targets);
  return a.outputs.length === b.outputs.length && a.outputs.every((name, n) => name === b.outputs[n]) && alike(targets(a), targets(b));
}

/** The sequences of runs: those of the same number side by side, with one range for each output. */
function traces(host, runs) {
  const { outputs, sequences } = runs[0].examples;
  const all = (k) => runs.flatMap((run) => run.examples.sequences.flatMap((each) => [...each.targets[k], ...each.predictions[k]]));
  const ranges = outputs.map((_, k) => extent(all(k)));
  sequences.forEach((_, number) => {
    const place = runs.length > 1 ? make("div", { class: "panels whole" }) : host;
    if (place !== host) host.append(place);
    runs.forEach((run) => new Trace(place, run, number, ranges));
  });
}

function examples() {
  const some = RUNS.filter((run) => run.examples), groups = [];
  if (!some.length) return;
  const host = section("Validation sequences", "Targets, and predictions from the best weights.");
  for (const run of some) {
    if (run.examples.why) {
      const note = make("p", { class: "note" }, RUNS.length > 1 ? `${run.letter} ` : "", run.examples.why);
      host.append(note);
      drawings.push({ render: () => (note.hidden = !run.on) });
      continue;
    }
    const group = groups.find(([first]) => sameSequences(first, run));
    if (group) group.push(run);
    else groups.push([run]);
  }
  groups.forEach((runs) => traces(host, runs));
}
