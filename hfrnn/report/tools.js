"use strict";

// Shared by all drawings: elements, numbers as text, thinning, and the reader's choices.

const DATA = JSON.parse(document.getElementById("data").textContent);
const RUNS = DATA.runs.map((run, number) => ({ ...run, number, letter: letter(number), on: true }));
const COUNTED = [...new Set(RUNS.map((run) => (run.unit ? "symbols" : "steps")))].join(" or "); // what a run reads: of a text, symbols
const AXES = { update: "updates", seconds: "time", symbols: COUNTED };
const SCALES = { auto: "auto", linear: "linear", log: "log" };
const chosen = { axis: "update", measure: null, scale: "auto" };
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
const colour = (number) => `var(--c${number % 8})`; // of a run
const shade = (number) => `var(--k${number % 8})`; // of a reason or an activity
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
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, Math.round(seconds)), two = (n) => String(n).padStart(2, "0");
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
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

/** The index of the first of the values that are nearest to a value; values may be null; -1 if all are. */
function nearest(values, value) {
  let [found, least] = [-1, Infinity];
  values.forEach((each, n) => {
    if (each !== null && Math.abs(each - value) < least) [found, least] = [n, Math.abs(each - value)];
  });
  return found;
}
