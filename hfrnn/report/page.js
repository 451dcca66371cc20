// The page: the controls, and its sections from top to bottom.

const MAIN = document.getElementById("main");
const DASH = "5 3";
const perplexity = (run) => column(run, "train_loss").map((loss, n) => (loss === null || column(run, "train_bits")[n] == null ? null : Math.exp(Math.min(loss, 690))));
const pair = (valid, train) => [{ name: "validation", key: valid, join: true }, { name: "training", thin: true, ...train }];
const MEASURES = {
  bits: { unit: () => `bits per ${units()}`, series: pair("valid_bits", { key: "train_bits" }), there: has("train_bits") },
  perplexity: { unit: () => `per ${units()}`, series: pair("valid_perplexity", { of: perplexity }), there: has("train_bits") },
  loss: { unit: () => [...new Set(RUNS.map((run) => run.loss))].join(" or "), series: pair("valid_loss", { key: "train_loss" }), there: has("train_loss") },
};

const FACTS = [...new Set(RUNS.flatMap((run) => Object.keys(run.facts)))];

const units = () => [...new Set(RUNS.map((run) => run.unit).filter(Boolean))].join(" or ");

/** A group of buttons, one of them chosen. */
function choice(name, options, value, choose) {
  const buttons = Object.entries(options).map(([option, text]) => {
    const input = make("input", { type: "radio", name, value: option, checked: option === value, change: () => choose(option) });
    return make("label", {}, input, make("span", {}, text));
  });
  return make("fieldset", { class: "choice" }, make("legend", {}, name), buttons);
}

function section(title, text) {
  const place = make("div", { class: "panels" });
  MAIN.append(make("section", {}, make("h2", {}, title), text ? make("p", { class: "about" }, text) : null, place));
  return place;
}

/** A section that is closed at first. */
function folded(title) {
  const place = make("div", { class: "panels" });
  MAIN.append(make("section", {}, make("details", {}, make("summary", {}, make("h2", {}, title)), place)));
  return place;
}

/** A line on the result of each run. */
function verdicts() {
  const lines = RUNS.map((run) => {
    const line = make("li", { style: `--c: ${colour(run.number)}` }, RUNS.length > 1 ? make("b", {}, `${run.letter} `) : null, make("bdi", {}, run.verdict));
    drawings.push({ render: () => (line.hidden = !run.on) });
    return line;
  });
  MAIN.append(make("ul", { class: "verdicts" }, lines));
}

/** A line chart; null if no run has its data. */
function chart(host, spec) {
  if (!spec.series.some((series) => series.of || has(series.key))) return null;
  const lines = new Lines(host, spec);
  if (spec.series.length > 1) {
    lines.figure.querySelector(".plot").before(make("ul", { class: "key" }, spec.series.map((series) => {
      const sample = draw("svg", { width: 24, height: 8, "aria-hidden": "true" },
        draw("path", { class: series.thin ? "curve thin" : "curve", d: "M0 4h24", "stroke-dasharray": series.dash || null, style: "--c: var(--text)" }));
      return make("li", {}, sample, series.name);
    })));
  }
  return lines;
}

function legend() {
  const host = document.getElementById("legend");
  host.hidden = RUNS.length < 2;
  for (const run of RUNS) {
    const button = make("button", { type: "button", "aria-pressed": "true", style: `--c: ${colour(run.number)}` },
      make("b", {}, run.letter), make("bdi", {}, run.name));
    button.addEventListener("click", () => {
      run.on = !run.on;
      button.setAttribute("aria-pressed", String(run.on));
      renderAll();
    });
    host.append(button);
  }
}

function controls(learning) {
  const host = document.getElementById("controls"), measures = Object.keys(MEASURES).filter((name) => MEASURES[name].there);
  host.append(choice("over", AXES, chosen.axis, (axis) => {
    chosen.axis = axis;
    renderAll();
  }));
  if (learning && measures.length > 1) {
    host.append(choice("measure", Object.fromEntries(measures.map((name) => [name, name])), chosen.measure, (name) => {
      chosen.measure = name;
      measure(learning);
      learning.render();
    }));
  }
  if (learning) {
    host.append(choice("scale", SCALES, chosen.scale, (kind) => {
      chosen.scale = kind;
      renderAll();
    }));
  }
  host.append(choice("theme", { auto: "auto", light: "light", dark: "dark" }, "auto", (theme) => {
    document.documentElement.dataset.theme = theme;
  }));
}

function measure(learning) {
  const { unit, series } = MEASURES[chosen.measure];
  learning.spec.series = series;
  learning.spec.unit = unit();
}

function learningSection() {
  if (!MEASURES.loss.there) {
    MAIN.append(make("p", { class: "about" }, "There are no updates yet."));
    return null;
  }
  const text = RUNS.every((run) => run.columns.train_bits), words = RUNS.every((run) => run.words);
  chosen.measure = text ? (words ? "perplexity" : "bits") : "loss";
  const host = section("Learning");
  host.classList.add("wide");
  const failed = has("failed") ? "× failed update. " : "", resumed = RUNS.some((run) => run.resumed.length) ? "▲ run resumed." : "";
  const learning = chart(host, { title: "Loss", series: MEASURES[chosen.measure].series, height: 340, failed: true, best: true, note: failed + resumed });
  measure(learning);
  chart(host, { title: "Wrong answers", unit: "share of the validation sequences", series: [{ name: "wrong", key: "valid_errors", join: true }], format: percent, percent: true, span: [0, 0], kind: "linear" });
  return learning;
}

/** The bounds of rho between which the damping does not change; none if they differ between runs. */
function bounds() {
  const found = new Set(RUNS.filter((run) => run.columns.mu || run.columns.lambda).map((run) => `${run.options.rho_low} ${run.options.rho_high}`));
  return found.size === 1 ? [...found][0].split(" ").map(Number) : [];
}

function damping(host) {
  const guides = bounds(), rule = guides.length ? `Damping grows below ${guides[0]} and shrinks above ${guides[1]}. ` : "";
  chart(host, { title: "Damping", kind: "log", series: [{ name: "mu", key: "mu" }, { name: "lambda", key: "lambda", dash: DASH }] });
  chart(host, {
    title: "rho", unit: "reduction of the loss by the full step / reduction predicted by the quadratic model", kind: "linear", series: [{ name: "rho", key: "rho" }],
    guides, span: [0, 1], clamp: [-1, 3], lost: (run, n) => column(run, "rho")[n] === null && column(run, "cg_iterations")[n] > 0,
    note: `${rule}Triangles at an edge are values beyond it; at the lower edge also full steps that raised the loss.`,
  });
}

function samples() {
  if (!RUNS.some((run) => run.samples.length)) return;
  const host = section("Samples", "Drawn from the network after updates 1, 2, 4, 8, … and, at the end, from the best weights.");
  host.classList.add("samples");
  for (const run of RUNS.filter((each) => each.samples.length)) {
    const items = run.samples.map(({ update, text }) => {
      const n = update === null ? -1 : column(run, "update").indexOf(update), loss = n < 0 ? null : column(run, "train_bits")[n];
      const time = n < 0 ? null : column(run, "seconds")[n] ?? null, seconds = time === null ? "" : `, ${clock(time)}`, bits = loss == null ? "" : `, ${figure(loss)} training bits`;
      const head = update === null ? "at the end" : `update ${figure(update)}${seconds}${bits}`;
      return make("li", {}, make("h4", {}, head), make("pre", { tabindex: 0 }, text));
    });
    const place = make("div", { class: "panel" }, RUNS.length > 1 ? make("h3", {}, runHead(run)) : null, make("ol", {}, items));
    host.append(place);
    drawings.push({ render: () => (place.hidden = !run.on) });
  }
}

function options() {
  const host = section("Options", null), several = RUNS.length > 1;
  const all = make("input", { type: "checkbox", change: () => rows.forEach((drawing) => drawing.render()) });
  host.classList.add("tables");
  host.append(make("label", { class: "all" }, all, several ? " all options, not only those that differ between runs" : " all options, not only those that were given"));
  const first = drawings.length;
  renewed(host, () => {
    const runs = visible(), found = [];
    let group = null;
    for (const row of DATA.options) {
      if (!all.checked && !row.told) continue;
      if (row.group !== group) found.push({ head: (group = row.group), cells: runs.map(() => ""), kind: "group" });
      const mark = several && row.differs;
      const name = make("span", {}, mark ? make("abbr", { title: "differs" }, "≠ ") : null, row.name);
      found.push({ head: name, cells: runs.map((run) => row.values[run.number] ?? ""), kind: mark ? "differs" : null });
    }
    return found.length ? table("Options", runs.map(runHead), found) : make("p", { class: "note" }, several ? "All options have the same values." : "No option was given.");
  });
  const rows = drawings.slice(first);
}

function build() {
  document.getElementById("title").textContent = RUNS.length > 1 ? `${RUNS.length} runs` : RUNS[0].name;
  MAIN.replaceChildren();
  const kinds = new Set(RUNS.map((run) => Boolean(run.columns.cg_stop)));
  if (kinds.size > 1) chosen.axis = "seconds"; // updates of different optimizers cannot be compared
  verdicts();
  const learning = learningSection();
  examples();
  const facts = section("Summary");
  facts.classList.add("tables");
  renewed(facts, () => table("Summary", visible().map(runHead), FACTS.map((name) => ({ head: name, cells: visible().map((run) => run.facts[name] ?? "–") }))));
  if (has("cg_stop")) {
    damping(folded("Damping and trust"));
    const cg = folded("Conjugate gradient");
    chart(cg, { title: "CG iterations", kind: "linear", span: [0, 1], series: [{ name: "performed", key: "cg_iterations" }, { name: "chosen step", key: "chosen_iteration", dash: DASH }], more: (run, n) => STOPS[column(run, "cg_stop")[n]] });
    renewed(new Strip(cg).figure, stopTable);
  }
  const steps = section("Steps");
  chart(steps, { title: "Step size", unit: "share of the step that the line search chose", kind: "linear", span: [0, 1], series: [{ name: "step size", key: "step_size" }], failed: true, note: has("failed") ? "× failed update." : "" });
  chart(steps, { title: "Gradient norm", series: has("residual_norm") ? [{ name: "gradient", key: "gradient_norm" }, { name: "last CG residual", key: "residual_norm", dash: DASH }] : [{ name: "gradient", key: "gradient_norm" }] });
  chart(steps, { title: "Step norm", series: [{ name: "step norm", key: "step_norm" }] });
  chart(steps, { title: "Learning rate", series: [{ name: "learning rate", key: "learning_rate" }] });
  chart(steps, { title: "Clipped gradients", unit: "share of the updates of a record", kind: "linear", span: [0, 1], format: percent, percent: true, series: [{ name: "clipped", key: "clipped" }] });
  if (!steps.children.length) steps.parentElement.remove();
  if (has("seconds_update")) {
    const time = section("Time");
    for (const run of RUNS.filter((each) => each.columns.seconds_update)) new Stack(time, run);
    renewed(time, timeTable, RUNS.length > 1);
  }
  samples();
  options();
  legend();
  controls(learning);
  renderAll();
}

build();
