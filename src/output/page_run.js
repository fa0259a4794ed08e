// Reads the run whose lines follow this script: page.cpp describes them. ECMAScript 2018 without
// libraries, as page.js, which shows it.
const NONE = 0xffffffff;

// ---------------------------------------------------------------------------------- numbers

// With three digits; from 1,000 s on in whole seconds.
function duration(ns) {
  for (const [unit, name] of [[1, " ns"], [1e3, " µs"], [1e6, " ms"]]) {
    const rounded = Number((ns / unit).toPrecision(3));
    if (Math.abs(rounded) < 1000) return rounded + name;
  }
  const seconds = ns / 1e9;
  return (seconds < 1000 ? Number(seconds.toPrecision(3)) : count(Math.round(seconds))) + " s";
}
const count = number => number.toLocaleString("en-US");
const amount = (number, unit) => unit === "ns" || unit === "waiting" ? duration(number) : unit === "hits" ? count(number) : count(number) + " " + unit;

// An array of numbers that grows.
class Column {
  constructor(Type) { this.Type = Type; this.data = new Type(1 << 12); this.length = 0; }
  push(value) {
    if (this.length === this.data.length) {
      const larger = new this.Type(this.length * 2);
      larger.set(this.data);
      this.data = larger;
    }
    this.data[this.length++] = value;
  }
}

// ---------------------------------------------------------------------------------- the run

// Calls and hits by number, in the order of the lines; functions, tracks and stacks.
const run = {
  title: "", startMicros: 0, system: "", summary: "", length: 0, unit: null, lost: 0, lostWhy: new Set(),
  names: [], modules: [], addresses: [], tracks: new Map(), processes: new Map(), stacks: [], measured: new Map(),
  track: new Column(Uint32Array), name: new Column(Uint32Array), begin: new Column(Float64Array),
  duration: new Column(Float64Array), // -1: a hit
  open: new Set(), failed: new Set(), waits: new Set(), values: [], times: [], damaged: 0,
  files: [], counts: new Map(), openSpans: [], spans: []
};
const MOST = 1 << 24; // numbers of functions and tracks

function addCall(track, name, begin, length, values, times) {
  run.track.push(track);
  run.name.push(name);
  run.begin.push(begin);
  run.duration.push(length);
  run.values.push(values || undefined);
  run.times.push(times);
  return run.track.length - 1;
}

// Adds up the counts of several intervals.
function addCount(kind, name, hits, sum, unit, values) {
  const key = kind + "\n" + name + "\n" + values;
  const known = run.counts.get(key) || { kind, name, hits: 0, sum: null, unit, values };
  known.hits += hits;
  if (sum !== null) known.sum = (known.sum || 0) + sum;
  run.counts.set(key, known);
}

function readLine(line, opened) {
  const fields = line.split("\t");
  const number = (i, least = 0) => {
    const value = Number(fields[i]);
    if (fields[i] === undefined || fields[i] === "" || !Number.isSafeInteger(value) || value < least) throw new Error("not a number");
    return value;
  };
  const small = i => {
    if (number(i) >= MOST) throw new Error("too large");
    return number(i);
  };
  const time = i => number(i, -Number.MAX_SAFE_INTEGER);
  const text = i => {
    const value = JSON.parse(fields[i]);
    if (typeof value !== "string") throw new Error("not a text");
    return value;
  };
  switch (fields[0]) {
  case "c": case "C": case "w": {
    const call = addCall(small(1), small(2), time(3), number(4), fields[5], fields[6]);
    if (fields[0] === "C") run.failed.add(call);
    if (fields[0] === "w") run.waits.add(call);
    break;
  }
  case "i": case "I": {
    const hit = addCall(small(1), small(2), time(3), -1, fields[4], fields[5]);
    if (fields[0] === "I") run.failed.add(hit);
    break;
  }
  case "b": {
    const call = addCall(small(1), small(2), time(3), 0, fields[4], fields[5]);
    if (!opened.has(small(1))) opened.set(small(1), []);
    opened.get(small(1)).push(call);
    break;
  }
  case "e": case "E": {
    const calls = opened.get(small(1));
    if (!calls || calls.length === 0 || time(2) < run.begin.data[calls[calls.length - 1]]) throw new Error("no call is open");
    const call = calls.pop();
    if (fields[0] === "E") run.failed.add(call);
    run.duration.data[call] = time(2) - run.begin.data[call];
    if (fields[4]) run.times[call] = fields[4];
    if (fields[3]) run.values[call] = run.values[call] ? run.values[call].slice(0, -1) + "," + fields[3].slice(1) : fields[3];
    break;
  }
  case "n": {
    if (small(1) > run.names.length) throw new Error("out of order");
    const [name, module] = [text(2), text(3)];
    run.names[small(1)] = name;
    run.modules[small(1)] = module;
    run.addresses[small(1)] = fields[4] || "";
    break;
  }
  case "t": run.tracks.set(small(1), { pid: number(2), tid: number(3), name: text(4) }); break;
  case "p": run.processes.set(number(1), text(2)); break;
  case "s": run.stacks.push({ hits: number(1), measured: fields[2] === "" ? null : number(2), frames: fields.slice(3).map((_, i) => small(i + 3)) }); break;
  case "h": {
    const known = run.measured.get(small(1)) || { unit: text(2), buckets: new Map() };
    for (const each of JSON.parse(fields[3]))
      if (each.low >= 0 && each.count > 0) known.buckets.set(each.low, (known.buckets.get(each.low) || 0) + each.count);
    run.measured.set(small(1), known);
    break;
  }
  case "f": run.files.push({ module: text(1), path: text(2), buildId: text(3) }); break;
  case "k": addCount(text(1), small(2), number(3), fields[4] === "" ? null : time(4), fields[5] || "", fields[6] || ""); break;
  case "o": run.openSpans.push({ name: small(1), begin: time(2), values: fields[3] }); break;
  case "S": run.spans.push({ name: small(1), counts: JSON.parse(fields[2]) }); break;
  case "l": run.lost += number(1); run.lostWhy.add(text(2)); break;
  case "u": run.unit = text(1); break;
  case "r": // the nanoseconds have more digits than a Number
    if (!/^[0-9]{1,19}$/.test(fields[2])) throw new Error("not a number");
    run.title = text(1);
    run.startMicros = Number(fields[2].slice(0, -3));
    if (fields[3]) run.system = text(3);
    break;
  case "z": run.summary = text(1); run.length = number(2); break;
  default: throw new Error("unknown line");
  }
}

function readRun(text) {
  const opened = new Map();
  for (let at = 0; at < text.length;) {
    let end = text.indexOf("\n", at);
    if (end < 0) end = text.length;
    if (end > at) {
      try { readLine(text.slice(at, end), opened); } catch (error) { run.damaged++; }
    }
    at = end + 1;
  }
  let last = 0;
  const { begin, duration } = run;
  for (let i = 0; i < begin.length; i++) last = Math.max(last, begin.data[i] + Math.max(0, duration.data[i]));
  run.isWhole = run.length > 0;
  for (const calls of opened.values()) for (const call of calls) {
    run.open.add(call);
    duration.data[call] = Math.max(0, Math.max(run.length, last) - begin.data[call]);
    last = Math.max(last, run.length);
  }
  run.end = Math.max(run.length, last);
  // Up to the last event: detaching comes later.
  run.length = Math.max(last, 1);
}

const nameOf = i => run.names[run.name.data[i]] || "?";
const isCall = i => run.duration.data[i] >= 0;
const endOf = i => run.begin.data[i] + Math.max(0, run.duration.data[i]);
const hasFailed = i => run.failed.has(i) || run.open.has(i);
function threadOf(i) {
  const track = run.tracks.get(run.track.data[i]) || { pid: 0, tid: 0, name: "" };
  const process = run.processes.get(track.pid);
  return (track.name || process || "") + (track.tid ? " " + track.tid : "");
}
const textOfValue = (key, value) => typeof value === "string" ? value : key === "stack" && Array.isArray(value) ? value.join(" ← ") : JSON.stringify(value);
// "key=value, …" of the JSON object of a line.
function textOfValues(json) {
  if (!json) return "";
  try {
    return Object.entries(JSON.parse(json)).map(([key, value]) => key + "=" + textOfValue(key, value)).join(", ");
  } catch (error) {
    return json;
  }
}
const valuesText = i => [textOfValues(run.values[i]), textOfValues(run.times[i])].filter(Boolean).join(", ");
// "14:03:05.123456", in the time zone of the reader.
function clock(ns) {
  const micros = run.startMicros + Math.floor(ns / 1e3);
  const date = new Date(micros / 1e3);
  const two = value => String(value).padStart(2, "0");
  return two(date.getHours()) + ":" + two(date.getMinutes()) + ":" + two(date.getSeconds()) + "." + String(micros % 1e6).padStart(6, "0");
}

// ---------------------------------------------------------------------------------- nesting

// For each call the one around it, its own time, how deep it is, and whether it is inside of another call of its
// function. Spans are not calls: they have nothing around them.
let parent, self, depth, isInner;
let byTrack;    // track -> calls by begin, outer ones first
let byTime;     // all calls and hits by begin

function nest() {
  const size = run.track.length, { begin, duration, track } = run;
  parent = new Uint32Array(size).fill(NONE);
  self = new Float64Array(size);
  depth = new Uint32Array(size);
  isInner = new Uint8Array(size);
  byTime = new Uint32Array(size);
  for (let i = 0; i < size; i++) byTime[i] = i;
  byTime.sort((a, b) => begin.data[a] - begin.data[b] || duration.data[b] - duration.data[a] || a - b);
  byTrack = new Map();
  for (const i of byTime) {
    const of = track.data[i];
    if (!byTrack.has(of)) byTrack.set(of, new Column(Uint32Array));
    byTrack.get(of).push(i);
  }
  for (const [of, calls] of byTrack) {
    const around = [], open = new Map(); // open calls by function
    const isOfSpans = (run.tracks.get(of) || {}).tid === 0;
    const isOver = (call, i) => endOf(call) <= begin.data[i] && !(endOf(i) === begin.data[i] && endOf(call) === begin.data[i]);
    for (let k = 0; k < calls.length; k++) {
      const i = calls.data[k];
      while (around.length && isOver(around[around.length - 1], i)) {
        const name = run.name.data[around.pop()];
        open.set(name, open.get(name) - 1);
      }
      const outer = around.length && !isOfSpans ? around[around.length - 1] : NONE;
      parent[i] = outer;
      depth[i] = around.length;
      if (!isCall(i) || run.waits.has(i)) continue;
      self[i] = duration.data[i];
      if (outer !== NONE) self[outer] -= duration.data[i];
      const inside = open.get(run.name.data[i]) || 0;
      isInner[i] = !isOfSpans && inside > 0 ? 1 : 0;
      open.set(run.name.data[i], inside + 1);
      around.push(i);
    }
  }
}
