// Shows the run that page_run.js has read. All texts of the run are set as text, never as markup.
const $ = id => document.getElementById(id);

// ---------------------------------------------------------------------------------- functions

const columns = [
  { key: "name", label: "Function", text: each => each.name },
  { key: "module", label: "File", text: each => each.module },
  { key: "calls", label: "Calls", text: each => count(each.calls) },
  { key: "total", label: "Total", text: each => each.timed ? duration(each.total) : "" },
  { key: "self", label: "Self", text: each => each.timed ? duration(each.self) : "" },
  { key: "min", label: "Min", text: each => each.durations.length ? duration(each.min) : "" },
  { key: "p50", label: "p50", text: each => each.durations.length ? duration(each.p50) : "" },
  { key: "p99", label: "p99", text: each => each.durations.length ? duration(each.p99) : "" },
  { key: "max", label: "Max", text: each => each.durations.length ? duration(each.max) : "" },
  { key: "failed", label: "Failed", text: each => each.failed ? count(each.failed) : "" }
];

// Returns the smallest value that is at least as large as `percent` % of the values.
const percentile = (sorted, percent) => sorted[Math.max(0, Math.ceil(sorted.length * percent / 100) - 1)];

function summarise() {
  const rows = new Map();
  for (let i = 0; i < run.track.length; i++) {
    if (run.waits.has(i)) continue; // it is part of a call
    const number = run.name.data[i];
    let row = rows.get(number);
    if (!row) rows.set(number, row = { number, name: run.names[number] || "?", module: run.modules[number] || "", calls: 0, total: 0, self: 0, failed: 0, durations: new Column(Float64Array) });
    row.calls++;
    if (hasFailed(i)) row.failed++;
    if (!isCall(i)) continue;
    row.self += self[i];
    if (!run.open.has(i)) row.durations.push(run.duration.data[i]);
    // A recursive call is part of the time of the outer one.
    if (!isInner[i]) row.total += run.duration.data[i];
  }
  // What was only counted, or only measured.
  for (const each of run.counts.values()) {
    const { name: number, hits } = each;
    if (isInCountsTable(each) || (rows.has(number) && !rows.get(number).isCounted)) continue;
    const row = rows.get(number) || { number, name: run.names[number] || "?", module: run.modules[number] || "", calls: 0, total: 0, self: 0, failed: 0, durations: new Column(Float64Array), isCounted: true };
    row.calls += hits;
    rows.set(number, row);
  }
  for (const [number, { buckets }] of run.measured)
    if (!rows.has(number)) rows.set(number, { number, name: run.names[number] || "?", module: run.modules[number] || "", calls: Array.from(buckets.values()).reduce((a, b) => a + b, 0), total: 0, self: 0, failed: 0, durations: new Column(Float64Array) });
  const named = new Map(); // how many functions have a name
  for (const row of rows.values()) named.set(row.name + "\n" + row.module, (named.get(row.name + "\n" + row.module) || 0) + 1);
  for (const row of rows.values()) {
    if (named.get(row.name + "\n" + row.module) > 1) row.name += " (" + (run.addresses[row.number] || "another one") + ")";
    row.durations = row.durations.data.subarray(0, row.durations.length).sort();
    row.timed = row.durations.length > 0 || row.total > 0;
    row.min = row.durations.length ? row.durations[0] : 0;
    row.max = row.durations.length ? row.durations[row.durations.length - 1] : 0;
    row.p50 = row.durations.length ? percentile(row.durations, 50) : 0;
    row.p99 = row.durations.length ? percentile(row.durations, 99) : 0;
  }
  return Array.from(rows.values());
}

function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties || {}))
    if (key in element) element[key] = value; else element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const mostRows = 2000;

// A table whose headings sort. Columns are { key, label, text }; the rows are sorted by row[key].
class Sheet {
  // `id` is that of the table. `choose` is what a click on the first cell of a row does, if there is something to do.
  constructor(id, columns, sorted, choose) {
    Object.assign(this, { id, columns, sorted, choose, rows: [], down: true, selected: null });
  }

  // Fills the table. Returns "12 of 34 WHAT", and says if not all are shown.
  show(shown, what) {
    const { sorted, down } = this, sign = down ? -1 : 1;
    const order = (a, b) => a < b ? -sign : a > b ? sign : 0;
    const numbers = new Map(this.rows.map((row, at) => [row, at]));
    const all = shown.slice().sort((a, b) => order(a[sorted], b[sorted]) || numbers.get(a) - numbers.get(b));
    const head = make("tr"), columns = this.columns.filter(column => !column.mayBeEmpty || this.rows.some(row => column.text(row) !== ""));
    for (const column of columns) {
      const cell = make("th", { scope: "col", className: column.isLeft ? "left" : "" }, make("button", { type: "button", onclick: () => this.sort(column.key) }, column.label));
      cell.setAttribute("aria-sort", column.key !== sorted ? "none" : down ? "descending" : "ascending");
      head.append(cell);
    }
    const body = make("tbody");
    for (const row of all.slice(0, mostRows)) {
      const line = make("tr");
      columns.forEach((column, at) => {
        const text = column.text(row);
        const isChosen = at === 0 && this.choose;
        const cell = make("td", typeof text === "string" && text.length > 30 ? { title: text } : {}, isChosen ? make("button", { type: "button", onclick: () => this.choose(row) }, text) : text);
        if (column.isLeft) cell.className = "left";
        line.append(cell);
      });
      if (this.choose) line.setAttribute("aria-selected", String(this.selected === row));
      body.append(line);
    }
    $(this.id).replaceChildren(make("thead", {}, head), body);
    this.redraw = () => this.show(shown, what);
    return count(shown.length) + " of " + count(this.rows.length) + " " + what + (all.length > mostRows ? ", the first " + count(mostRows) + " are shown" : "");
  }

  sort(key) {
    this.down = this.sorted === key ? !this.down : typeof (this.rows[0] || {})[key] !== "string";
    this.sorted = key;
    this.redraw();
    $(this.id).querySelector("th:not([aria-sort=none]) button").focus();
  }
}

const functions = new Sheet("functions-table", columns, "total", row => selectFunction(row));

function showFunctions() {
  const wanted = $("functions-filter").value.toLowerCase();
  const shown = functions.rows.filter(row => (row.name + " " + row.module).toLowerCase().includes(wanted));
  $("functions-count").textContent = functions.show(shown, "functions");
}

// Rows of a histogram: from a power of two up to the next one.
function histogramOf(row) {
  const measured = run.measured.get(row.number);
  if (measured) return measured;
  const buckets = new Map();
  for (const value of row.durations) {
    const low = value < 1 ? 0 : 2 ** Math.floor(Math.log2(value));
    buckets.set(low, (buckets.get(low) || 0) + 1);
  }
  return { unit: "ns", buckets };
}

function selectFunction(row) {
  functions.selected = row;
  showFunctions();
  const detail = $("detail");
  detail.replaceChildren(make("h2", {}, "How long calls of " + row.name + " take"));
  const { unit, buckets } = histogramOf(row);
  if (buckets.size === 0) {
    detail.append(make("p", {}, "Its hits have no duration."));
    return;
  }
  const lows = Array.from(buckets.keys()).sort((a, b) => a - b);
  const all = [];
  for (let low = lows[0]; low <= lows[lows.length - 1]; low = low === 0 ? 1 : low * 2) all.push(low);
  const most = Math.max(...buckets.values());
  const table = make("table", { id: "histogram" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "From"), make("th", { scope: "col" }, "Share"), make("th", { scope: "col" }, "Calls"))));
  const body = make("tbody");
  for (const low of all) {
    const number = buckets.get(low) || 0;
    const bar = make("canvas", { width: 300, height: 12 });
    bar.setAttribute("aria-hidden", "true");
    bar.style.cssText = "width:300px;height:12px;border:0";
    const paint = bar.getContext("2d");
    paint.fillStyle = colours().accent;
    paint.fillRect(0, 0, number ? Math.max(1, 300 * number / most) : 0, 12);
    body.append(make("tr", {}, make("td", {}, unit === "ns" ? duration(low) : count(low)), make("td", {}, bar), make("td", {}, count(number))));
  }
  table.append(body);
  detail.append(table);
  if (row.durations.length) detail.append(make("h2", {}, "When"), heatMap(row, all));
}

// Durations over time: darker where more calls are.
function heatMap(row, lows) {
  const wide = 120, cells = new Map();
  let most = 0;
  for (let i = 0; i < run.track.length; i++) {
    if (run.name.data[i] !== row.number || !isCall(i)) continue;
    const x = Math.min(wide - 1, Math.floor(run.begin.data[i] / run.length * wide));
    const value = run.duration.data[i];
    const y = lows.indexOf(value < 1 ? 0 : 2 ** Math.floor(Math.log2(value)));
    const number = (cells.get(y * wide + x) || 0) + 1;
    cells.set(y * wide + x, number);
    most = Math.max(most, number);
  }
  const canvas = make("canvas", { id: "heat", width: wide * 8, height: Math.max(1, lows.length) * 14 });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "heat map of durations over time, the longest at the top");
  canvas.style.width = "auto";
  const paint = canvas.getContext("2d");
  paint.fillStyle = colours().accent;
  for (const [cell, number] of cells) {
    paint.globalAlpha = 0.15 + 0.85 * number / most;
    paint.fillRect(cell % wide * 8, (lows.length - 1 - Math.floor(cell / wide)) * 14, 7, 13);
  }
  return canvas;
}

// ---------------------------------------------------------------------------------- drawing

function colours() {
  const style = getComputedStyle(document.documentElement);
  const value = name => style.getPropertyValue(name).trim();
  return { ground: value("--ground"), text: value("--text"), line: value("--line"), accent: value("--accent"), mark: value("--mark") };
}

function hashOf(text) {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) >>> 0;
  return hash;
}

// Functions of one file have similar colours.
const colourOf = name => "hsl(" + (hashOf(run.modules[name] || "") % 360 + hashOf(run.names[name] || "") % 71 - 35) + " 55% " + (68 + hashOf(run.names[name] || "") % 5 * 3) + "%)";

// Sizes the canvas in pixels of the screen. Returns a context that draws in pixels of the page.
function prepare(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const paint = canvas.getContext("2d");
  paint.scale(ratio, ratio);
  paint.font = "12px system-ui, sans-serif";
  paint.textBaseline = "middle";
  paint.fillStyle = colours().ground;
  paint.fillRect(0, 0, width, height);
  return { paint, width };
}

function label(paint, text, x, y, width) {
  if (width < 24) return;
  paint.save();
  paint.beginPath();
  paint.rect(x, y - 9, width - 3, 18);
  paint.clip();
  paint.fillText(text, x + 3, y);
  paint.restore();
}

function showTip(event, text) {
  const tip = $("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
}

// ---------------------------------------------------------------------------------- timeline

const timeline = { from: 0, to: 1, rows: [], shapes: [], selected: NONE, deeper: 0 };

// Calls of a track at one depth do not overlap: each such row is searched by bisection.
function makeRows() {
  const most = 64;
  for (const [track, calls] of byTrack) {
    const levels = [];
    for (let k = 0; k < calls.length; k++) {
      const i = calls.data[k], level = depth[i];
      if (level >= most) {
        timeline.deeper++;
        continue;
      }
      if (!levels[level]) levels[level] = new Column(Uint32Array);
      levels[level].push(i);
    }
    const first = calls.data[0];
    levels.forEach((row, level) => timeline.rows.push({ row, level, track, title: level === 0 ? threadOf(first) : "" }));
  }
}

function firstFrom(row, time) {
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (endOf(row.data[middle]) < time) low = middle + 1; else high = middle;
  }
  return low;
}

function drawTimeline() {
  const canvas = $("timeline-canvas"), most = 400;
  const rows = timeline.rows.slice(0, most);
  const titles = rows.filter(each => each.level === 0).length;
  const { paint, width } = prepare(canvas, Math.max(rowHeight, (rows.length + titles) * rowHeight));
  const colour = colours(), scale = width / (timeline.to - timeline.from);
  timeline.shapes = [];
  let y = 0;
  for (const each of rows) {
    if (each.level === 0) {
      paint.fillStyle = colour.text;
      paint.fillText(each.title, 3, y + rowHeight / 2);
      y += rowHeight;
    }
    for (let k = firstFrom(each.row, timeline.from); k < each.row.length;) {
      const i = each.row.data[k];
      if (run.begin.data[i] > timeline.to) break;
      const left = Math.max(0, (run.begin.data[i] - timeline.from) * scale);
      const right = Math.min(width, (endOf(i) - timeline.from) * scale);
      const wide = Math.max(1, right - left);
      paint.fillStyle = i === timeline.selected ? colour.mark : colourOf(run.name.data[i]);
      paint.fillRect(left, y, wide > 3 ? wide - 1 : wide, rowHeight - 1);
      paint.fillStyle = i === timeline.selected ? colour.ground : "#111";
      label(paint, nameOf(i), left, y + rowHeight / 2, wide);
      timeline.shapes.push({ i, x: left, y, width: wide });
      // What begins and ends within this pixel is not drawn.
      k = right - left < 1 ? Math.max(k + 1, firstFrom(each.row, timeline.from + (Math.floor(left) + 1) / scale)) : k + 1;
    }
    y += rowHeight;
  }
  $("timeline-range").textContent = duration(Math.round(timeline.from)) + " to " + duration(Math.round(timeline.to)) +
    (timeline.deeper ? "; " + count(timeline.deeper) + " calls below 64 others are not shown" : "") +
    (timeline.rows.length > most ? "; the first " + most + " rows of " + timeline.rows.length : "");
}

function setRange(from, to) {
  const least = 100, span = Math.min(run.length, Math.max(least, to - from));
  timeline.from = Math.max(0, Math.min(from, run.length - span));
  timeline.to = timeline.from + span;
  drawTimeline();
}

function zoomTimeline(factor, at) {
  const middle = at === undefined ? (timeline.from + timeline.to) / 2 : at;
  setRange(middle - (middle - timeline.from) * factor, middle + (timeline.to - middle) * factor);
}

const timeAt = event => {
  const box = $("timeline-canvas").getBoundingClientRect();
  return timeline.from + (event.clientX - box.left) / box.width * (timeline.to - timeline.from);
};

function callAt(event) {
  const box = $("timeline-canvas").getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  return timeline.shapes.find(shape => y >= shape.y && y < shape.y + rowHeight && x >= shape.x && x < shape.x + shape.width);
}

const callText = i => nameOf(i) + "\n" + threadOf(i) + ", at " + clock(run.begin.data[i]) +
  (isCall(i) ? ", " + duration(run.duration.data[i]) + (run.open.has(i) ? " (has not ended)" : "") : "") + (valuesText(i) ? "\n" + valuesText(i) : "");

// The next call or the one before, by the time of their beginning.
function selectBeside(by) {
  if (byTime.length === 0) return;
  const at = timeline.selected === NONE ? -1 : byTime.indexOf(timeline.selected);
  const i = byTime[Math.min(byTime.length - 1, Math.max(0, at < 0 ? byTime.findIndex(each => run.begin.data[each] >= timeline.from) : at + by))];
  const span = timeline.to - timeline.from;
  if (run.begin.data[i] < timeline.from || run.begin.data[i] > timeline.to) setRange(run.begin.data[i] - span / 4, run.begin.data[i] + span * 3 / 4);
  selectCall(i);
}

function selectCall(i) {
  timeline.selected = i;
  drawTimeline();
  $("timeline-detail").replaceChildren(make("pre", {}, callText(i)));
}

// ---------------------------------------------------------------------------------- events

const events = { shown: null, height: 22 };

function filterEvents() {
  const wanted = $("events-filter").value.toLowerCase(), least = Number($("events-least").value) * 1e3;
  if (wanted === "" && !(least > 0)) events.shown = byTime;
  else {
    const names = run.names.map(name => String(name).toLowerCase().includes(wanted));
    const threads = new Map(Array.from(byTrack.keys(), track => [track, threadOf(byTrack.get(track).data[0]).toLowerCase().includes(wanted)]));
    events.shown = byTime.filter(i => (!(least > 0) || run.duration.data[i] >= least) &&
      (wanted === "" || names[run.name.data[i]] || threads.get(run.track.data[i]) || ((run.values[i] !== undefined || run.times[i] !== undefined) && valuesText(i).toLowerCase().includes(wanted))));
  }
  $("events-list").scrollTop = 0;
  $("events-count").textContent = count(events.shown.length) + " of " + count(byTime.length) + " events";
  drawEvents();
}

// Only the lines in sight are there. A list may be higher than browsers allow: then a pixel stands for several.
function drawEvents() {
  const list = $("events-list"), highest = 8e6, shown = events.shown;
  const whole = shown.length * events.height, height = Math.min(whole, highest);
  $("events-space").style.height = height + "px";
  const lines = Math.ceil(list.clientHeight / events.height) + 1;
  const room = Math.max(1, height - list.clientHeight);
  const first = Math.max(0, Math.min(shown.length - lines + 1, Math.round(list.scrollTop / room * Math.max(0, shown.length - lines + 1))));
  const rows = [];
  for (let k = first; k < Math.min(shown.length, first + lines); k++) {
    const i = shown[k], text = valuesText(i);
    const row = make("div", { className: "event" }, make("span", {}, clock(run.begin.data[i])), make("span", {}, threadOf(i)),
      make("span", { title: nameOf(i) }, nameOf(i)), make("span", {}, isCall(i) ? duration(run.duration.data[i]) : ""), make("span", { title: text }, text));
    row.setAttribute("role", "listitem");
    row.style.top = list.scrollTop + (k - first) * events.height + "px";
    rows.push(row);
  }
  $("events-rows").replaceChildren(...rows);
}

// ---------------------------------------------------------------------------------- the page

const allViews = [
  { id: "functions", label: "Functions", draw: showFunctions, isThere: () => functions.rows.length > 0 },
  { id: "tree", label: "Call tree", draw: drawTree, isThere: hasTree },
  { id: "flame", label: "Flame graph", draw: drawFlame, isThere: hasTree },
  { id: "timeline", label: "Timeline", draw: drawTimeline, isThere: () => run.track.length > 0 },
  { id: "events", label: "Events", draw: () => events.shown ? drawEvents() : filterEvents(), isThere: () => run.track.length > 0 },
  { id: "waiting", label: "Waiting", draw: showWaiting, isThere: hasWaiting },
  { id: "spans", label: "Spans", draw: showSpans, isThere: () => run.spans.length + run.openSpans.length > 0 },
  { id: "counts", label: "Counts", draw: showCounts, isThere: hasCounts }
];
let views; // those that the run has something for

function show(id, focus) {
  for (const view of allViews) $(view.id).hidden = view.id !== id;
  for (const view of views) {
    const isShown = view.id === id;
    $("tab-" + view.id).setAttribute("aria-selected", String(isShown));
    $("tab-" + view.id).tabIndex = isShown ? 0 : -1;
    if (isShown) view.draw();
    if (isShown && focus) $("tab-" + view.id).focus();
  }
}

function setGraph(view, weight) {
  Object.assign(flame, { view, weight });
  for (const of of ["flame", "tree"]) {
    $(of + "-view").value = view;
    $(of + "-weight").value = weight;
  }
  flame.zoomed = flame.current = tree.current = null;
  tree.open = new Set();
  show(views.find(each => !$(each.id).hidden).id);
}

function linkedView() {
  const wanted = location.hash.replace("#view=", "");
  return views.some(view => view.id === wanted) ? wanted : null;
}

// Shows the view, and sets the URL so that a link to the page opens it.
function choose(id, focus) {
  history.replaceState(null, "", "#view=" + id);
  show(id, focus);
}

function makeTabs() {
  views = allViews.filter(view => view.isThere());
  if (views.length === 0) views = [allViews[0]];
  views.forEach((view, at) => {
    const tab = make("button", { type: "button", id: "tab-" + view.id, onclick: () => choose(view.id) }, view.label);
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", view.id);
    tab.onkeydown = event => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by) choose(views[(at + by + views.length) % views.length].id, true);
    };
    $("tabs").append(tab);
  });
}

function listen() {
  $("functions-filter").oninput = showFunctions;
  for (const of of ["flame", "tree"]) {
    $(of + "-view").onchange = () => setGraph($(of + "-view").value, flame.weight);
    $(of + "-weight").onchange = () => setGraph(flame.view, $(of + "-weight").value);
  }
  $("tree-search").oninput = drawTree;
  $("tree-hottest").onclick = openHottest;
  $("tree-table").onkeydown = treeKey;
  $("counts-filter").oninput = showCounts;
  $("flame-search").oninput = drawFlame;
  $("flame-reset").onclick = () => zoomFlame(null);
  const flameCanvas = $("flame-canvas"), canvas = $("timeline-canvas");
  flameCanvas.onclick = event => { const shape = shapeAt(event); if (shape) zoomFlame(shape.node); };
  flameCanvas.onmousemove = event => { const shape = shapeAt(event); showTip(event, shape && flameText(shape.node)); };
  flameCanvas.onmouseleave = canvas.onmouseleave = event => showTip(event, "");
  flameCanvas.onkeydown = flameKey;
  $("timeline-in").onclick = () => zoomTimeline(0.5);
  $("timeline-out").onclick = () => zoomTimeline(2);
  $("timeline-reset").onclick = () => setRange(0, run.length);
  canvas.addEventListener("wheel", event => { if (!event.ctrlKey && !event.shiftKey) return; event.preventDefault(); zoomTimeline((event.deltaY || event.deltaX) < 0 ? 0.8 : 1.25, timeAt(event)); }, { passive: false });
  let dragged = null;
  canvas.onmousedown = event => { dragged = { x: event.clientX, from: timeline.from, to: timeline.to, moved: false }; };
  window.addEventListener("mouseup", () => { if (dragged && !dragged.moved) dragged = null; setTimeout(() => { dragged = null; }); });
  canvas.onmousemove = event => {
    if (dragged && Math.abs(event.clientX - dragged.x) > 3) dragged.moved = true;
    if (dragged && dragged.moved) {
      const by = (dragged.x - event.clientX) / canvas.clientWidth * (dragged.to - dragged.from);
      setRange(dragged.from + by, dragged.to + by);
      return showTip(event, "");
    }
    const shape = callAt(event);
    showTip(event, shape && callText(shape.i));
  };
  canvas.onclick = event => { const shape = callAt(event); if (shape && !(dragged && dragged.moved)) selectCall(shape.i); };
  canvas.onkeydown = event => {
    const by = (timeline.to - timeline.from) / 5;
    const step = { ArrowLeft: -by, ArrowRight: by }[event.key];
    if (step) setRange(timeline.from + step, timeline.to + step);
    else if (event.key === "+" || event.key === "=") zoomTimeline(0.5);
    else if (event.key === "-") zoomTimeline(2);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") selectBeside(event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "Escape") setRange(0, run.length);
    else return;
    event.preventDefault();
  };
  $("events-filter").oninput = $("events-least").oninput = filterEvents;
  $("events-list").onscroll = drawEvents;
  const redraw = () => show(views.find(view => !$(view.id).hidden).id);
  window.addEventListener("resize", redraw);
  window.addEventListener("hashchange", () => { if (linkedView()) show(linkedView()); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

function begin() {
  readRun($("run").textContent);
  nest();
  makeRows();
  functions.rows = summarise();
  if (!functions.rows.some(row => row.timed)) functions.sorted = "calls";
  document.title = run.title;
  $("title").textContent = run.title;
  $("files").hidden = run.files.length === 0;
  $("files-count").textContent = run.files.length === 1 ? "1 file" : count(run.files.length) + " files";
  for (const file of run.files) $("files-list").append(make("li", {}, file.path + (file.buildId ? ", build id " + file.buildId : ", without a build id")));
  $("summary").textContent = [run.summary, run.system, run.startMicros ? "began at " + new Date(run.startMicros / 1e3).toISOString() : "",
    count(run.track.length) + " events" + (run.stacks.length ? ", " + count(run.stacks.length) + " stacks" : "")].filter(Boolean).join("; ");
  const warnings = [];
  if (run.lost) warnings.push(count(run.lost) + " records were lost (" + Array.from(run.lostWhy).join(", ") + "): sums and trees may lack them");
  if (!run.isWhole) warnings.push("the run had not ended when this page was written");
  if (run.track.length + run.stacks.length + run.measured.size + run.counts.size + run.openSpans.length === 0) warnings.push("the run has neither events nor stacks");
  if (run.damaged) warnings.push(count(run.damaged) + " lines of the run cannot be read");
  $("warning").textContent = warnings.join(". ");
  $("warning").hidden = warnings.length === 0;
  const units = (run.stacks.length ? run.unit !== null && run.stacks.some(stack => stack.measured !== null) : functions.rows.some(row => row.timed)) ? [run.unit || "ns", "hits"] : ["hits"];
  if (run.stacks.length === 0 && hasWaiting()) units.splice(1, 0, "waiting");
  for (const unit of units)
    for (const select of ["flame-weight", "tree-weight"]) $(select).append(make("option", { value: unit }, unit !== "ns" ? unit : run.stacks.length ? "latency" : "time"));
  flame.weight = units[0];
  timeline.to = run.length;
  makeTabs();
  listen();
  show(linkedView() || (run.track.length === 0 && run.stacks.length ? "flame" : views[0].id));
  window.uprobectlRun = { run, functions, flame, tree, timeline, events, waiting }; // for tests
}

document.addEventListener("DOMContentLoaded", begin);
