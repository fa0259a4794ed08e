// Adds zooming, search and details to a flame graph that is opened as a document. Runs at the end
// of the file that flame_graph.cpp writes. ECMAScript 2015 without libraries.
(function () {
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const XHTML = "http://www.w3.org/1999/xhtml";
const svg = document.documentElement;
if (svg.namespaceURI !== SVG) return;
const margin = Number(svg.getAttribute("data-margin"));
const hint = "Click a frame to zoom, the top one or Esc to reset. Ctrl-F searches.";

// The lines of a frame's title are its name, its module if there is one, and its counts.
function readFrame(g) {
  const lines = g.querySelector("title").textContent.split("\n");
  const rect = g.querySelector("rect");
  return {
    g: g, rect: rect, label: g.querySelector("text"), y: Number(rect.getAttribute("y")),
    name: lines[0], short: g.getAttribute("data-short") || lines[0], module: lines.length > 2 ? lines[1] : "", details: lines.slice(1),
    at: Number(g.getAttribute("data-at")), weight: Number(g.getAttribute("data-weight"))
  };
}

const frames = Array.from(document.querySelectorAll("#frames > g"), readFrame);
if (frames.length === 0) return;
const all = frames[0];
const frameOf = new Map(frames.map(function (frame) { return [frame.g, frame]; }));
// The order of searching: from left to right, callers before callees.
const outsideIn = frames.slice(1).sort(function (a, b) { return a.at - b.at || a.y - b.y; });
let zoomed = all;
let pattern = null;

// ---------------------------------------------------------------------------------- elements

function make(space, name, attributes, parent) {
  const element = document.createElementNS(space, name);
  Object.keys(attributes).forEach(function (key) { element.setAttribute(key, attributes[key]); });
  return parent.appendChild(element);
}

make(SVG, "style", {}, svg).textContent =
  "#frames g { cursor: pointer }" +
  "#frames .above { opacity: .65 }" +
  "#frames .found rect { fill: #e61cc8; stroke: #90107c }" +
  "#frames .found text { fill: #fff }" +
  "#search { float: right; display: flex; gap: 8px; align-items: center; height: 26px; font-size: 12px }" +
  "#search input { width: 230px; font: inherit; padding: 2px 5px; border: 1px solid #888; border-radius: 3px }" +
  "#search input.wrong { border-color: #c00; background: #fee }" +
  "#search button { font: inherit; padding: 2px 8px }";

const bar = document.getElementById("bar");
const barY = Number(bar.getAttribute("data-y"));
const barGround = make(SVG, "rect", { y: barY, height: 28, fill: "#fff" }, bar);
const details = make(SVG, "text", { id: "details", x: margin, y: barY + 16 }, bar);
const foreign = make(SVG, "foreignObject", { y: barY, height: 28 }, bar);
const controls = make(XHTML, "div", { id: "search" }, foreign);
const matched = make(XHTML, "span", { id: "matched" }, controls);
const input = make(XHTML, "input", {
  type: "text", placeholder: "regular expression", "aria-label": "search", spellcheck: "false"
}, controls);
const reset = make(XHTML, "button", { id: "reset", type: "button" }, controls);
reset.textContent = "Reset zoom";
const probe = make(SVG, "text", { visibility: "hidden" }, svg);
probe.textContent = "M".repeat(50);
const columnWidth = probe.getComputedTextLength() / 50 || 6.63;
svg.removeChild(probe);

// ------------------------------------------------------------------------------------ layout

// As shorten_text() in stack_tree.cpp: East Asian characters take two columns.
function shortenText(text, columns) {
  let taken = 0, kept = 0, at = 0;
  for (const letter of text) {
    taken += letter >= "\u2e80" ? 2 : 1;
    at += letter.length;
    if (taken < columns) kept = at;
    if (taken > columns) return columns < 3 ? "" : text.slice(0, kept) + "\u2026";
  }
  return text;
}

// As shorten_name(): without parameters and template arguments, then without leading scopes.
function shortenName(frame, columns) {
  if (shortenText(frame.name, columns) === frame.name) return frame.name;
  let name = frame.short;
  const scope = /^(\w+|\(anonymous namespace\))::(?=.)/;
  while (scope.test(name) && shortenText(name, columns) !== name) name = name.replace(scope, "");
  return shortenText(name, columns);
}

function positionFrame(frame, pixels) {
  const from = Math.max(frame.at, zoomed.at);
  const to = Math.min(frame.at + frame.weight, zoomed.at + zoomed.weight);
  const shown = to - from > zoomed.weight * 1e-12;
  frame.g.setAttribute("display", shown ? "inline" : "none");
  if (!shown) return;
  const x = margin + (from - zoomed.at) * pixels;
  const width = (to - from) * pixels;
  frame.rect.setAttribute("x", x.toFixed(3));
  frame.rect.setAttribute("width", width.toFixed(3));
  frame.g.classList.toggle("above", frame.y < zoomed.y);
  const text = shortenName(frame, Math.floor((width - 6) / columnWidth));
  if (text === "" && frame.label === null) return;
  if (frame.label === null) frame.label = make(SVG, "text", { y: frame.y + 12 }, frame.g);
  frame.label.setAttribute("x", (x + 3).toFixed(3));
  frame.label.textContent = text;
}

// Fits the graph to the width of the window.
function layOut() {
  const height = Number(svg.getAttribute("height"));
  const scrollbar = height > window.innerHeight ? 18 : 0;
  const width = Math.max(600, window.innerWidth - scrollbar);
  svg.setAttribute("width", width);
  svg.setAttribute("viewBox", "0 0 " + width + " " + height);
  barGround.setAttribute("width", width);
  foreign.setAttribute("x", width - margin - 560);
  foreign.setAttribute("width", 560);
  frames.forEach(function (frame) { positionFrame(frame, (width - 2 * margin) / zoomed.weight); });
  reset.disabled = zoomed === all;
  showDetails(null);
}

// Shows details of the frame under the pointer, or a hint if there is none. Shortens the name, but
// not the counts.
function showDetails(frame) {
  const room = Number(foreign.getAttribute("x")) + (matched.textContent ? 0 : 170) - margin;
  const columns = Math.floor(room / columnWidth);
  if (frame === null) {
    details.textContent = shortenText(hint, columns);
    return;
  }
  let rest = [""].concat(frame.details).join("  \u00b7  ");
  if (zoomed !== all && frame.y >= zoomed.y)
    rest += " (" + percent(frame.weight, zoomed.weight) + " of what is shown)";
  details.textContent = shortenText(frame.name, Math.max(12, columns - rest.length)) + rest;
}

// ------------------------------------------------------------------------------------ search

function percent(part, whole) { return (100 * part / whole).toFixed(2) + "%"; }

// A pattern without capital letters ignores case.
function compile(text) {
  const ignoresCase = !/[A-Z]/.test(text.replace(/\\./g, ""));
  return new RegExp(text, ignoresCase ? "i" : "");
}

// Marks frames whose name or module matches. The weight of nested matches counts once.
function mark() {
  const end = zoomed.at + zoomed.weight;
  let count = 0, weight = 0, covered = zoomed.at;
  outsideIn.forEach(function (frame) {
    const found = pattern !== null && (pattern.test(frame.name) || pattern.test(frame.module));
    frame.g.classList.toggle("found", found);
    const to = Math.min(frame.at + frame.weight, end);
    if (!found || to <= zoomed.at || frame.at >= end) return;
    ++count;
    if (to <= covered) return;
    weight += to - Math.max(frame.at, covered);
    covered = to;
  });
  matched.textContent = pattern === null ? "" :
    count + (count === 1 ? " frame, " : " frames, ") + percent(weight, zoomed.weight);
}

function search(text) {
  input.classList.remove("wrong");
  pattern = null;
  try {
    if (text !== "") pattern = compile(text);
  } catch (error) {
    input.classList.add("wrong");
  }
  mark();
  if (input.classList.contains("wrong")) matched.textContent = "invalid regular expression";
  showDetails(null);
}

// ------------------------------------------------------------------------------------- state

// Returns the state for the URL, "#y=136&at=12&search=malloc", for links and the back button.
function hash() {
  const words = [];
  if (zoomed !== all) words.push("y=" + zoomed.y + "&at=" + zoomed.g.getAttribute("data-at"));
  if (input.value !== "") words.push("search=" + encodeURIComponent(input.value));
  return "#" + words.join("&");
}

function remember(isStep) {
  if (location.hash === hash() || location.hash + "#" === hash()) return;
  try {
    if (isStep) history.pushState(null, "", hash());
    else history.replaceState(null, "", hash());
  } catch (error) {
    // Not allowed in a sandboxed page: the URL stays as it is.
  }
}

function zoom(frame) {
  zoomed = frame;
  layOut();
  mark();
}

function restore() {
  const words = new URLSearchParams(location.hash.slice(1));
  const same = function (frame) {
    return String(frame.y) === words.get("y") && frame.g.getAttribute("data-at") === words.get("at");
  };
  input.value = words.get("search") || "";
  zoomed = frames.find(same) || all;
  layOut();
  search(input.value);
}

// ------------------------------------------------------------------------------------ events

function frameAt(event) {
  const g = event.target.closest ? event.target.closest("#frames > g") : null;
  return g === null ? null : frameOf.get(g);
}

document.getElementById("frames").addEventListener("click", function (event) {
  const frame = frameAt(event);
  if (frame === null) return;
  zoom(frame);
  remember(true);
});
svg.addEventListener("mouseover", function (event) { showDetails(frameAt(event)); });
reset.addEventListener("click", function () { zoom(all); remember(true); });
input.addEventListener("input", function () { search(input.value); remember(false); });

// Escape clears the search if it has the focus, otherwise the zoom. Ctrl-F in the search opens that
// of the browser.
window.addEventListener("keydown", function (event) {
  const searching = document.activeElement === input;
  if ((event.ctrlKey || event.metaKey) && event.key === "f" && !searching) {
    event.preventDefault();
    input.focus();
    input.select();
  } else if (event.key === "Escape" && (searching || zoomed === all)) {
    input.value = "";
    input.blur();
    search("");
    remember(false);
  } else if (event.key === "Escape") {
    zoom(all);
    remember(true);
  }
});

// Keeps the bar visible when the page is scrolled.
window.addEventListener("scroll", function () {
  const down = Math.max(0, window.scrollY - barY);
  bar.setAttribute("transform", "translate(0 " + down + ")");
});
window.addEventListener("resize", layOut);
window.addEventListener("popstate", restore);
window.addEventListener("hashchange", restore);

restore();
})();
