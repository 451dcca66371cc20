"use strict";

// Shared by all drawings: elements, numbers as text, axes, thinning, and the reader's choices.

const DATA = JSON.parse(document.getElementById("data").textContent);
const RUNS = DATA.runs.map((run, number) => ({ ...run, number, letter: letter(number), on: true }));
const AXES = { update: "updates", seconds: "time", symbols: "symbols" };
const chosen = { axis: "update", measure: null };
const drawings = []; // objects whose render() is called after every choice and change of width

function letter(number) {
  return (number >= 26 ? letter(Math.floor(number / 26) - 1) : "") + String.fromCharCode(65 + (number % 26));
}

/** An HTML element; children are elements or text, never markup. */
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null));
  return element;
}

const visible = () => RUNS.filter((run) => run.on);
const colour = (number) => `var(--c${number % 8})`;
const column = (run, key) => run.columns[key] || [];
const has = (key) => RUNS.some((run) => run.columns[key]);
const renderAll = () => drawings.forEach((drawing) => drawing.render());

// ---------------------------------------------------------------- numbers as text

/** A number with five significant digits. */
function figure(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1e5 && Number.isInteger(value)) return value.toLocaleString("en");
  return String(Number(value.toPrecision(5)));
}

const percent = (value) => (value === null || value === undefined ? "–" : `${figure(100 * value)}%`);

function clock(seconds) {
  const whole = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** A number as an axis label: 20k, 1.5M, 0.25, 1e-5. */
function brief(value) {
  const size = Math.abs(value), trim = (x) => String(Number(x.toPrecision(4)));
  if (size >= 1e9) return `${trim(value / 1e9)}G`;
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  if (size > 0 && size < 1e-3) return value.toExponential().replace("e-", "e−");
  return trim(value).replace("-", "−");
}

// ---------------------------------------------------------------- axes

/** A scale from data to pixels, with ticks [value, label] at least about `space` pixels apart. */
function scale(kind, low, high, from, to, space) {
  if (kind === "log" && low === high) [low, high] = [low / 2, high * 2];
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  const move = kind === "log" ? Math.log10 : (x) => x;
  const [a, b] = [move(low), move(high)], factor = (to - from) / (b - a);
  const count = Math.max(2, Math.floor(Math.abs(to - from) / space));
  const values = { log: logTicks, time: timeTicks, linear: linearTicks, whole: wholeTicks }[kind](low, high, count);
  return {
    kind, low, high,
    at: (value) => from + (move(value) - a) * factor,
    back: (pixel) => (kind === "log" ? 10 ** (a + (pixel - from) / factor) : a + (pixel - from) / factor),
    ticks: values.map((value) => [value, kind === "time" ? timeLabel(value, high) : brief(value)]),
  };
}

function multiples(step, low, high) {
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(Number((n * step).toPrecision(12)));
  return found;
}

function linearTicks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  return multiples([1, 2, 5, 10].find((n) => n * power >= rough * 0.999) * power, low, high);
}

const wholeTicks = (low, high, count) => linearTicks(low, high, Math.min(count, high - low)).filter(Number.isInteger);

function timeTicks(low, high, count) {
  const rough = (high - low) / count;
  const step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200].find((n) => n >= rough);
  return rough < 1 ? linearTicks(low, high, count) : multiples(step || 86400 * Math.ceil(rough / 86400), low, high);
}

const timeLabel = (value, high) => (high < 120 ? `${figure(value)} s` : clock(value));

function logTicks(low, high, count) {
  const [a, b] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))], found = [];
  const steps = b - a <= count / 3 ? [1, 2, 5] : b - a <= count / 2 ? [1, 3] : [1];
  const every = Math.ceil(Math.log10(high / low) / count);
  for (let power = a; power <= b; power++) {
    if (steps.length === 1 && power % every) continue;
    for (const step of steps) found.push(Number(`${step}e${power}`));
  }
  const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  return inside.length > 1 ? inside : linearTicks(low, high, count);
}

/** The kind of scale for values: logarithmic if they span more than a factor of 20. */
function suited(values) {
  const low = values.reduce((a, b) => Math.min(a, b), Infinity), high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return low > 0 && high / low > 20 ? "log" : "linear";
}

// ---------------------------------------------------------------- thinning

/** Thin out points [x, y, ...] with rising x: keep the first, lowest, highest and last of each column of pixels. */
function thin(points) {
  const kept = [];
  let same = [];
  const close = () => {
    if (same.length > 4) {
      let [low, high] = [0, 0];
      same.forEach((point, n) => {
        if (point[1] < same[low][1]) low = n;
        if (point[1] > same[high][1]) high = n;
      });
      same = [...new Set([0, low, high, same.length - 1])].sort((a, b) => a - b).map((n) => same[n]);
    }
    kept.push(...same);
    same = [];
  };
  for (const point of points) {
    if (same.length && Math.floor(point[0]) !== Math.floor(same[0][0])) close();
    same.push(point);
  }
  close();
  return kept;
}

/** The index of the nearest value in a rising list. */
function nearest(list, value) {
  let [low, high] = [0, list.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (list[middle] < value) low = middle;
    else high = middle;
  }
  return high > low && list[high] - value < value - list[low] ? high : low;
}
