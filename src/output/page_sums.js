// Waiting time, spans and counts as tables.

// ---------------------------------------------------------------------------------- waiting

const waiting = { ofCalls: null };
const numberIn = (json, key) => {
  const found = json === undefined ? null : json.match('"' + key + '":([0-9]+)');
  return found ? Number(found[1]) : 0;
};
const textIn = (json, key) => {
  const found = json === undefined ? null : json.match('"' + key + '":("(?:[^"\\\\]|\\\\.)*")');
  return found ? JSON.parse(found[1]) : "";
};

let isWaitingKnown = null;
function hasWaiting() {
  if (isWaitingKnown === null) isWaitingKnown = run.waits.size > 0 || run.times.some(json => json !== undefined && json.includes('"waiting_ns":'));
  return isWaitingKnown;
}

// By call: how long it has waited, with the calls inside.
function waitingOfCalls() {
  if (!waiting.ofCalls) {
    waiting.ofCalls = new Float64Array(run.track.length);
    for (let i = 0; i < run.track.length; i++) if (!run.waits.has(i)) waiting.ofCalls[i] = numberIn(run.times[i], "waiting_ns");
  }
  return waiting.ofCalls;
}

const timeColumn = (key, text) => ({ key, label: text, text: row => row[key] ? duration(row[key]) : "", mayBeEmpty: true });
const waitingSheet = new Sheet("waiting-table", [
  { key: "name", label: "Function", text: row => row.name },
  { key: "module", label: "File", text: row => row.module },
  { key: "calls", label: "Calls", text: row => count(row.calls) },
  timeColumn("total", "Total"), timeColumn("cpu", "On a CPU"), timeColumn("waiting", "Waiting"), timeColumn("slept", "Slept"),
  timeColumn("blocked", "Blocked"), timeColumn("preempted", "Preempted"),
  { key: "share", label: "Waiting of total", text: row => row.total ? (100 * row.share).toFixed(1) + "%" : "" }
], "waiting");
const longestSheet = new Sheet("longest-table", [
  { key: "name", label: "Function", text: row => row.name },
  { key: "thread", label: "Thread", text: row => row.thread },
  timeColumn("length", "Wait"),
  { key: "cause", label: "Cause", text: row => row.cause },
  { key: "waker", label: "Ended by", text: row => row.waker },
  { key: "begin", label: "Call began", text: row => clock(row.begin) }
], "length");

function sumWaiting() {
  const rows = new Map(), longest = [], ofCalls = waitingOfCalls();
  for (let i = 0; i < run.track.length; i++) {
    const json = run.times[i];
    if (run.waits.has(i)) {
      const call = parent[i];
      longest.push({ name: call === NONE ? "?" : nameOf(call), thread: threadOf(i), length: run.duration.data[i], cause: nameOf(i), waker: textIn(json, "waker_comm"), begin: run.begin.data[call === NONE ? i : call] });
      continue;
    }
    if (ofCalls[i] === 0 && !(json !== undefined && json.includes('"waiting_ns":'))) continue;
    const number = run.name.data[i];
    let row = rows.get(number);
    if (!row) rows.set(number, row = { name: run.names[number] || "?", module: run.modules[number] || "", calls: 0, total: 0, cpu: 0, waiting: 0, slept: 0, blocked: 0, preempted: 0, share: 0 });
    row.calls++;
    const wait = numberIn(json, "longest_wait_ns");
    if (wait && run.waits.size === 0) longest.push({ name: nameOf(i), thread: threadOf(i), length: wait, cause: textIn(json, "longest_wait_cause"), waker: textIn(json, "waker_comm"), begin: run.begin.data[i] });
    if (isInner[i]) continue; // it is part of the outer call
    row.total += Math.max(0, run.duration.data[i]);
    row.cpu += numberIn(json, "on_cpu_ns");
    row.waiting += ofCalls[i];
    for (const cause of ["slept", "blocked", "preempted"]) row[cause] += numberIn(json, cause + "_ns");
  }
  for (const row of rows.values()) row.share = row.total ? row.waiting / row.total : 0;
  waitingSheet.rows = Array.from(rows.values());
  longestSheet.rows = longest.sort((a, b) => b.length - a.length);
}

function showWaiting() {
  if (waitingSheet.rows.length === 0) sumWaiting();
  $("waiting-count").textContent = waitingSheet.show(waitingSheet.rows, "functions");
  $("longest").hidden = longestSheet.rows.length === 0;
  $("longest-count").textContent = longestSheet.show(longestSheet.rows.slice(0, 200), run.waits.size ? "waits" : "calls, each with its longest wait");
}

// ---------------------------------------------------------------------------------- spans

const countColumn = (key, text) => ({ key, label: text, text: row => row[key] ? count(row[key]) : "", mayBeEmpty: true });
const spanSheet = new Sheet("spans-table", [
  { key: "name", label: "Span", text: row => row.name },
  countColumn("begun", "Begun"), countColumn("ended", "Ended"), countColumn("open", "Open at the end"), countColumn("begun_again", "Begun again"),
  countColumn("not_begun", "Ended without a beginning"), countColumn("null_keys", "Without a key"), countColumn("unread_keys", "Key not readable"),
  countColumn("without_room", "Not kept"), countColumn("shorter", "Shorter than the minimum"), countColumn("not_selected", "Left out by --if")
], "open");
const openSheet = new Sheet("open-table", [
  { key: "name", label: "Span", text: row => row.name },
  { key: "key", label: "Key", text: row => row.key, mayBeEmpty: true },
  timeColumn("age", "Age"),
  { key: "begin", label: "Began", text: row => clock(row.begin) },
  { key: "values", label: "Values", text: row => row.values, isLeft: true }
], "age");

function showSpans() {
  if (spanSheet.rows.length === 0) spanSheet.rows = run.spans.map(({ name, counts }) => Object.assign({}, counts, { name: run.names[name] || "?" }));
  if (openSheet.rows.length === 0)
    openSheet.rows = run.openSpans.map(({ name, begin, values }) => {
      const { key, ...rest } = values ? JSON.parse(values) : {};
      return { name: run.names[name] || "?", begin, age: Math.max(0, run.end - begin), key: key === undefined ? "" : textOfValue("key", key), values: textOfValues(JSON.stringify(rest)) };
    });
  $("spans-count").textContent = spanSheet.show(spanSheet.rows, "names of spans");
  $("open").hidden = openSheet.rows.length === 0;
  const all = spanSheet.rows.reduce((sum, row) => sum + row.open, 0); // --top may leave some out
  $("open-count").textContent = count(openSheet.rows.length) + " of " + count(Math.max(all, openSheet.rows.length)) + " open spans";
  openSheet.show(openSheet.rows, "open spans");
}

// ---------------------------------------------------------------------------------- counts

const countsSheet = new Sheet("counts-table", [
  { key: "name", label: "Function or span", text: row => row.name },
  { key: "values", label: "In common", text: row => row.values },
  { key: "kind", label: "Counted", text: row => row.kind },
  { key: "hits", label: "Count", text: row => count(row.hits) },
  { key: "sum", label: "Sum", text: row => row.sum === null ? "" : row.unit === "ns" ? duration(row.sum) : count(row.sum) }
], "hits");

// Whether a count has a row here. Counts of whole functions are in the table of functions.
function isInCountsTable(each) { return each.values !== "" || each.kind !== "hits"; }
function hasCounts() { return Array.from(run.counts.values()).some(isInCountsTable); }

function showCounts() {
  if (countsSheet.rows.length === 0) {
    countsSheet.rows = Array.from(run.counts.values()).filter(isInCountsTable).map(each => Object.assign({}, each, { name: run.names[each.name] || "?", values: textOfValues(each.values) }));
    if (countsSheet.rows.some(row => row.sum !== null)) countsSheet.sorted = "sum";
  }
  const wanted = $("counts-filter").value.toLowerCase();
  $("counts-count").textContent = countsSheet.show(countsSheet.rows.filter(row => (row.name + " " + row.values).toLowerCase().includes(wanted)), "rows");
}
