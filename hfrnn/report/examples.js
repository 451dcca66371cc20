// Validation sequences: the targets and predictions of some outputs.

const LANE = 84; // pixels

/** One sequence of a run: a lane for each output, over the steps of the sequence. */
class Trace extends Panel {
  constructor(host, run, number) {
    const { outputs, sequences } = run.examples, { targets, predictions } = sequences[number];
    const lanes = outputs.map((name, k) => ({
      name,
      series: [{ name: "target", values: targets[k], hue: "--c: var(--faint)" }, { name: "prediction", values: predictions[k], hue: `--c: ${colour(run.number)}` }],
    }));
    super(host, `Sequence ${number + 1}`, RUNS.length > 1 ? `run ${run.letter}` : "", lanes.length * LANE + 42);
    this.run = run;
    this.lanes = lanes;
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
    const ranges = this.lanes.map((lane) => extent(lane.series.flatMap((series) => series.values)));
    this.scales = ranges.map(([low, high], n) => {
      const from = this.top + (n + 1) * LANE - 14, to = this.top + n * LANE + 18;
      return low <= high ? scale("linear", low, high, from, to, 16) : null;
    });
    const ticks = this.scales.flatMap((y) => (y ? y.ticks : []));
    this.left = 12 + 6.6 * Math.max(1, ...ticks.map(([, label]) => label.length));
    this.x = scale("whole", 1, Math.max(2, this.steps), this.left, this.right, 60);
    this.stops = Array.from({ length: this.steps }, (_, n) => this.x.at(n + 1));
    return [...this.axes(this.x, null), ...this.lanes.flatMap((lane, n) => this.lane(lane, this.scales[n], n))];
  }

  lane(lane, y, n) {
    const parts = [draw("text", { class: "name", x: this.left, y: this.top + n * LANE + 10 }, lane.name)];
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

function examples() {
  const some = RUNS.filter((run) => run.examples);
  if (!some.length) return;
  const host = section("Validation sequences", "Targets, and predictions from the best weights.");
  for (const run of some) {
    if (run.examples.why) {
      const note = make("p", { class: "note" }, RUNS.length > 1 ? `${run.letter} ` : "", run.examples.why);
      host.append(note);
      drawings.push({ render: () => (note.hidden = !run.on) });
    } else {
      run.examples.sequences.forEach((_, number) => new Trace(host, run, number));
    }
  }
}
