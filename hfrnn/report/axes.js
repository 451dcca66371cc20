// Axes: scales from values to pixels, ticks and labels. The values may be any finite numbers; every loop is bounded.

const LEAST_SPAN = 1e-9; // of an axis, relative to its values: a narrower one would show nothing but rounding
const MOST_TICKS = 200;
const UNITS = [[1e12, 1e12, "T"], [1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"], [1e-3, 1, ""]]; // from which size on
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200]; // steps in seconds

/** The lowest and the highest of some values without null; [Infinity, -Infinity] if there are none. */
function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value === null || value === undefined) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** The ends of an axis, apart enough to tell values between them apart. */
function widened(kind, low, high) {
  if (kind === "log") return high / low > 1 + LEAST_SPAN ? [low, high] : [Math.max(low / 2, Number.MIN_VALUE), high * 2];
  const size = Math.max(Math.abs(low), Math.abs(high)), half = size > 1e-290 ? size / 2 : 0.5;
  return high - low > Math.max(size * LEAST_SPAN, 1e-300) ? [low, high] : [low - half, high + half];
}

/** A scale from data to pixels, with ticks [value, label] at least about `space` pixels apart. */
function scale(kind, first, last, from, to, space) {
  const [low, high] = widened(kind, first, last);
  const move = kind === "log" ? Math.log10 : (x) => x;
  const a = move(low), b = move(high), size = to - from;
  const count = Math.max(2, Math.floor(Math.abs(size) / space));
  const values = { log: logTicks, time: timeTicks, linear: linearTicks, whole: wholeTicks }[kind](low, high, count);
  const names = kind === "time" ? timeLabels(values) : labels(values, kind);
  return { kind, low, high, at: (value) => from + ((move(value) - a) / (b - a)) * size, ticks: values.map((value, n) => [value, names[n]]) };
}

function multiples(step, low, high) {
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  const count = Math.max(0, Math.min(last - first + 1, MOST_TICKS));
  return Array.from({ length: count }, (_, n) => Number(((first + n) * step).toPrecision(12)) + 0); // + 0: no -0
}

function linearTicks(low, high, count) {
  const rough = (high - low) / count, power = Number(`1e${exponent(rough)}`);
  return multiples([1, 2, 5, 10].find((n) => n * power >= rough * 0.999) * power, low, high);
}

function wholeTicks(low, high, count) {
  const near = (high - low) / 1e6, inside = (value) => value >= low - near && value <= high + near;
  return linearTicks(low, high, Math.min(count, high - low)).filter((value) => Number.isInteger(value) && inside(value));
}

function timeTicks(low, high, count) {
  const rough = (high - low) / count, step = TIMES.find((n) => n >= rough);
  return rough < 1 ? linearTicks(low, high, count) : multiples(step || 86400 * Math.ceil(rough / 86400), low, high);
}

function logTicks(low, high, count) {
  const [a, b] = [exponent(low), exponent(high) + 1], found = [];
  const steps = b - a <= count / 3 ? [1, 2, 5] : b - a <= count / 2 ? [1, 3] : [1];
  const every = Math.max(1, Math.ceil((Math.log10(high) - Math.log10(low)) / count));
  for (let power = a; power <= b; power++) {
    if (steps.length === 1 && power % every) continue;
    for (const step of steps) found.push(Number(`${step}e${power}`));
  }
  const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  return inside.length > 1 ? inside : linearTicks(low, high, count);
}

/** The kind of scale for values: logarithmic if they span more than a factor of 20. */
function suited(values) {
  const [low, high] = extent(values);
  return low > 0 && high / low > 20 ? "log" : "linear";
}

// ---------------------------------------------------------------- labels

const exponent = (value) => Number(value.toExponential().split("e")[1]);
const minus = (text) => text.replaceAll("-", "−");

/** Labels of the ticks of one axis, all in one format: 0.25; 20k; 1.5M; 2e−5; on wide logarithmic axes 10⁻⁴. */
function labels(values, kind) {
  const [least, most] = extent(values.map(Math.abs).filter((size) => size > 0));
  if (kind === "log" && (least < 1e-3 || most >= 1e4)) return values.map(power);
  if (kind === "log") return values.map((value) => String(Number(value.toPrecision(12))));
  if (!(most > 0)) return values.map(() => "0");
  const e = Math.max(exponent(most), -323), [, unit, mark] = (most < 1e15 && UNITS.find(([from]) => most >= from)) || [0, Number(`1e${e}`), `e${e}`];
  const gap = values.length > 1 ? values[1] - values[0] : most, shown = values.map((value) => value / unit);
  let digits = 0;
  while (digits < 15 && shown.some((value) => Math.abs(Number(value.toFixed(digits)) - value) > (1e-3 * gap) / unit)) digits++;
  return shown.map((value) => minus(value === 0 ? "0" : value.toFixed(digits) + mark));
}

function power(value) {
  const [factor, e] = value.toExponential(11).split("e").map(Number);
  const raised = String(e).replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
  return `${factor === 1 ? "" : `${factor}·`}10${raised}`;
}

const timeLabels = (values) => (extent(values)[1] < 120 ? labels(values, "linear").map((label) => `${label} s`) : values.map(clock));
