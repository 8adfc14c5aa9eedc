"use strict";
// The data that the page draws; see pageData in htmldata.go. A segment of an
// operation is so many numbers, and so is a piece off the path.
const fields = 8, offFields = 5;
const data = JSON.parse(document.getElementById("data").textContent);
const text = (n) => data.strings[n] || "";
const dark = matchMedia("(prefers-color-scheme: dark)");

// el makes an element with texts and elements in it; names of others only ever
// become text.
function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (k in e) e[k] = v; else e.setAttribute(k, v);
  }
  e.append(...children);
  return e;
}

// digits prints a number with three significant digits, as the tables do.
function digits(v) {
  const a = Math.abs(v);
  const s = v.toFixed(a >= 99.95 ? 0 : a >= 9.995 ? 1 : a >= 0.9995 ? 2 : 3);
  return Number(s) === 0 ? "0" : s;
}

function duration(ns) {
  const a = Math.abs(ns);
  if (a < 1e3) return digits(ns) + " ns";
  if (a < 1e6) return digits(ns / 1e3) + " us";
  return a < 1e10 ? digits(ns / 1e6) + " ms" : digits(ns / 1e9) + " s";
}

const share = (part, all) => (all > 0 ? (100 * part / all).toFixed(1) : "0.0") + " %";

// areas are what stages' names begin with, those with the most time first: each
// has a colour of its own, as far apart as can be.
const areaOf = (stage) => stage.split(".", 1)[0];
const areas = new Map();
{
  const sums = new Map();
  for (const o of data.operations) {
    for (let i = 0; i < o.segments.length; i += fields) {
      const area = areaOf(text(o.segments[i + 3]));
      sums.set(area, (sums.get(area) || 0) + o.segments[i]);
    }
  }
  [...sums].sort((a, b) => b[1] - a[1]).forEach(([area], i) => areas.set(area, i * 137.5 + 215));
}

// hash spreads names over numbers.
function hash(name) {
  let h = 2166136261;
  for (const c of name) h = Math.imul(h ^ c.codePointAt(0), 16777619) >>> 0;
  return h;
}

function stageColor(name) {
  if (name === "other" || name === "unknown") return dark.matches ? "#6b7480" : "#9aa4ae";
  const shift = hash(name) % 19 - 9;
  return `hsl(${(areas.get(areaOf(name)) || 0) + shift} ${50 + shift}% ${(dark.matches ? 56 : 46) + shift}%)`;
}

// fit makes a canvas as many device pixels as it is wide, and gives its context
// in CSS pixels.
function fit(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth || 800;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  const style = getComputedStyle(document.body);
  const colors = {};
  for (const n of ["bg", "fg", "soft", "line", "panel"]) colors[n] = style.getPropertyValue("--" + n).trim();
  c.font = "12px system-ui, sans-serif";
  c.textBaseline = "middle";
  return { c, width, height, colors };
}

// cut shortens a label to a width.
function cut(c, label, width) {
  if (width < 14) return "";
  if (c.measureText(label).width <= width) return label;
  const keep = Math.floor(label.length * width / c.measureText(label).width) - 1;
  return keep > 1 ? label.slice(0, keep) + "…" : "";
}

// redraw has f called when the window or the colours change.
function redraw(f) {
  let asked = false;
  const later = () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; f(); }); } };
  addEventListener("resize", later);
  addEventListener("beforeprint", f);
  dark.addEventListener("change", later);
  return later;
}
