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
    this.figure = make("figure", { class: "panel" }, make("h3", {}, `${title} `, this.unit), this.plot, this.note, this.heard);
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

  /** The scale of the chosen horizontal axis, for these runs. */
  across(runs) {
    const ends = runs.map((run) => column(run, chosen.axis).at(-1) || 0);
    const kind = { update: "whole", seconds: "time", symbols: "linear" }[chosen.axis];
    return scale(kind, 0, Math.max(...ends) || 1, this.left, this.right, 60);
  }

  /** The first line of a run in the cursor's box. */
  head(run, n) {
    const seconds = column(run, "seconds")[n];
    const where = `update ${figure(column(run, "update")[n])}${seconds === undefined ? "" : `, ${clock(seconds)}`}`;
    const name = RUNS.length > 1 ? make("b", {}, `${run.letter} `, make("bdi", {}, run.name)) : null;
    return make("div", { class: "head" }, make("i", { class: "swatch", style: `background: ${colour(run.number)}` }), name, where);
  }
}

/** Curves of some columns. A series has a name, a key or of(run), dash, and join: whether to draw across missing values. */
class Lines extends Panel {
  constructor(host, spec) {
    super(host, spec.title, spec.unit || "", spec.height || 230);
    this.spec = { format: figure, kind: "auto", ...spec };
  }

  values(run, series) {
    return series.of ? series.of(run) : column(run, series.key);
  }

  picture(width) {
    const { spec } = this, all = [];
    this.curves = visible().flatMap((run) => spec.series.map((series) => ({ run, series, values: this.values(run, series) })))
      .filter(({ values }) => values.some((value) => value !== null));
    for (const { values } of this.curves) for (const value of values) if (value !== null) all.push(value);
    const kind = spec.kind === "auto" ? suited(all) : spec.kind;
    const shown = kind === "log" ? all.filter((value) => value > 0) : all;
    let low = shown.reduce((a, b) => Math.min(a, b), Infinity), high = shown.reduce((a, b) => Math.max(a, b), -Infinity);
    [this.top, this.bottom, this.right] = [12, this.height - 38, width - (RUNS.length > 1 ? 22 : 14)];
    this.figure.classList.toggle("empty", !shown.length);
    if (!shown.length) {
      this.stops = [];
      return [draw("text", { x: width / 2, y: this.height / 2, "text-anchor": "middle" }, "no data")];
    }
    if (spec.clamp) [low, high] = [Math.max(Math.min(low, spec.span[0]), spec.clamp[0]), Math.min(Math.max(high, spec.span[1]), spec.clamp[1])];
    else if (spec.span) [low, high] = [Math.min(low, spec.span[0]), Math.max(high, spec.span[1])];
    const y = scale(kind, low, high, this.bottom - 6, this.top, 38);
    if (spec.percent) y.ticks.forEach((tick) => (tick[1] = percent(tick[0])));
    this.left = 12 + 6.6 * Math.max(...y.ticks.map((tick) => tick[1].length));
    const runs = [...new Set(this.curves.map((curve) => curve.run))];
    this.x = this.across(runs);
    this.y = y;
    this.unit.textContent = [spec.unit, kind === "log" ? "logarithmic" : ""].filter(Boolean).join(", ");
    this.note.textContent = spec.note || "";
    this.stops = [...new Set(runs.flatMap((run) => column(run, chosen.axis).map((value) => this.x.at(value))))].sort((a, b) => a - b);
    return [...this.axes(this.x, y), ...this.guides(), ...this.curves.flatMap((curve) => this.curve(curve)), ...runs.flatMap((run) => this.marks(run)), ...this.letters()];
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
    const { run, series, values } = curve, xs = column(run, chosen.axis), pieces = [[]], parts = [];
    curve.points = [];
    values.forEach((value, n) => {
      const at = this.height_of(value);
      if (at !== null) {
        const point = [this.x.at(xs[n]), at, n];
        pieces.at(-1).push(point);
        curve.points.push(point);
      } else if (!series.join && pieces.at(-1).length) pieces.push([]);
    });
    const drawn = pieces.map(thin), hue = `--c: ${colour(run.number)}`;
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
      const off = (test, at, shape) => spaced(lost.flatMap((value, n) => (value !== null && test(value) ? [this.x.at(xs[n])] : [])), 6)
        .map((x) => draw("path", { class: "off", d: `M${x - 4} ${at}h8l-4 ${shape}z`, style: hue }));
      parts.push(...off((value) => value < this.y.low, this.bottom - 5, 5), ...off((value) => value > this.y.high, this.top + 5, -5));
    }
    return parts;
  }

  /** Marks of failed updates and of resumed runs. */
  marks(run) {
    const xs = column(run, chosen.axis), hue = `--c: ${colour(run.number)}`, parts = [];
    for (const n of run.resumed) {
      const x = this.x.at(xs[n]);
      parts.push(draw("path", { class: "resumed", d: `M${x} ${this.bottom - 8}l-4 8h8z`, style: hue }, draw("title", {}, "resumed")));
    }
    if (this.spec.failed) {
      const failed = column(run, "failed").flatMap((value, n) => (value === null ? [] : [n])), key = this.spec.series.at(-1);
      const values = this.values(run, key);
      const placed = failed.map((n) => [this.x.at(xs[n]), this.height_of(values[n])]).filter((point) => point[1] !== null);
      for (const [x, y] of spaced(placed, 5)) parts.push(draw("path", { class: "failed", d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`, style: hue }, draw("title", {}, "failed")));
    }
    return parts;
  }

  /** The letter of each run, at the end of its first curve. */
  letters() {
    if (RUNS.length < 2) return [];
    const ends = visible().flatMap((run) => {
      const curve = this.curves.find((each) => each.run === run && each.points.length);
      return curve ? [{ run, x: curve.points.at(-1)[0], y: curve.points.at(-1)[1] }] : [];
    });
    const placed = [];
    for (const end of ends.sort((a, b) => a.y - b.y)) {
      let y = end.y;
      for (const other of placed) if (Math.abs(other.x - end.x) < 12 && y < other.y + 12) y = other.y + 12;
      placed.push({ ...end, y });
    }
    return placed.map(({ run, x, y }) => draw("text", { class: "letter", x: x + 6, y: y + 4, style: `--c: ${colour(run.number)}` }, run.letter));
  }

  read(pixel) {
    const value = this.x.back(pixel), rows = [], dots = [];
    let [x, least] = [pixel, Infinity];
    for (const run of visible()) {
      const xs = column(run, chosen.axis), mine = this.curves.filter((curve) => curve.run === run);
      if (!xs.length || !mine.length) continue;
      const n = nearest(xs, value), at = this.x.at(xs[n]);
      if (Math.abs(at - pixel) < least) [x, least] = [at, Math.abs(at - pixel)];
      const texts = mine.map(({ series, values }) => {
        const m = series.join ? measured(values, n) : n;
        const y = this.height_of(values[m]);
        if (y !== null) dots.push([this.x.at(xs[m]), y, run.number]);
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
