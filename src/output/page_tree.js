// The tree of page_flame.js as a table: rows open and close.
const tree = { open: new Set(), current: null, rows: [] };

// Nodes that match, and those above them.
function findInTree(wanted) {
  const found = new Set(), order = [graph(flame.view)];
  for (let i = 0; i < order.length; i++) for (const child of order[i].below.values()) order.push(child);
  for (const node of order)
    if (node.above && flameName(node).toLowerCase().includes(wanted))
      for (let each = node; each && !found.has(each); each = each.above) found.add(each);
  return found;
}

const heaviestFirst = node => Array.from(node.below.values()).sort((a, b) => weightOf(b) - weightOf(a) || (flameName(a) < flameName(b) ? -1 : 1));

// The rows that are shown, from top to bottom.
function treeRows(found) {
  const rows = [], pending = heaviestFirst(graph(flame.view)).reverse();
  while (pending.length && rows.length < mostRows) {
    const node = pending.pop();
    if (found && !found.has(node)) continue;
    rows.push(node);
    if (found || tree.open.has(node)) pending.push(...heaviestFirst(node).reverse());
  }
  tree.isCut = pending.length > 0;
  return rows;
}

function drawTree() {
  const wanted = $("tree-search").value.toLowerCase();
  const found = wanted === "" ? null : findInTree(wanted);
  tree.rows = treeRows(found);
  const areCalls = run.stacks.length === 0 && flame.view === "callees"; // not those inside
  const isTimed = flame.weight !== "hits", whole = weightOf(graph(flame.view));
  const titles = [run.stacks.length ? "Frame" : "Function", "File", run.stacks.length ? "Hits" : "Calls", ...(isTimed ? ["Total"] : []), ...(flame.view === "callees" ? ["Self"] : []), "Share"];
  const body = make("tbody");
  for (const node of tree.rows) {
    const isOpen = found ? true : tree.open.has(node), hasMore = node.below.size > 0;
    const button = make("button", { type: "button", tabIndex: node === (tree.current || tree.rows[0]) ? 0 : -1, onclick: () => toggle(node) }, (hasMore ? isOpen ? "▾ " : "▸ " : "\u2003") + flameName(node));
    const first = make("td", { title: flameName(node) }, button);
    first.style.paddingLeft = 8 + Math.min(node.level - 1, 60) * 16 + "px";
    const own = flame.weight === "hits" ? node.ownHits : flame.weight === "waiting" ? node.ownWaited : node.own;
    const cells = [run.modules[node.name] || "", count(areCalls ? node.ownHits : node.hits), ...(isTimed ? [amount(weightOf(node), flame.weight)] : []), ...(flame.view === "callees" ? [amount(own, flame.weight)] : []), whole ? (100 * weightOf(node) / whole).toFixed(2) + "%" : ""];
    const row = make("tr", {}, first, ...cells.map(text => make("td", {}, text)));
    row.setAttribute("aria-level", String(node.level));
    if (hasMore) row.setAttribute("aria-expanded", String(isOpen));
    if (found && flameName(node).toLowerCase().includes(wanted)) row.className = "found";
    body.append(row);
  }
  const head = make("tr", {}, ...titles.map(title => make("th", { scope: "col" }, title)));
  $("tree-table").replaceChildren(make("thead", {}, head), body);
  $("tree-count").textContent = count(tree.rows.length) + " rows" + (tree.isCut ? ", further ones are not shown" : "") + (wanted ? ", " + share(wanted) + " of the whole" : "");
}

function toggle(node) {
  if (node.below.size > 0) tree.open.has(node) ? tree.open.delete(node) : tree.open.add(node);
  goTo(node);
}

function goTo(node) {
  tree.current = node;
  drawTree();
  const at = tree.rows.indexOf(node);
  if (at >= 0) $("tree-table").querySelectorAll("tbody button")[at].focus();
}

// Opens rows from the current one, or the first, down, while one of the rows below has half of the weight.
function openHottest() {
  let node = tree.current || heaviestFirst(graph(flame.view))[0];
  while (node && node.below.size > 0 && weightOf(heaviestFirst(node)[0]) * 2 >= weightOf(node)) {
    tree.open.add(node);
    node = heaviestFirst(node)[0];
  }
  if (node) goTo(node);
}

function treeKey(event) {
  const at = tree.rows.indexOf(tree.current || tree.rows[0]), node = tree.rows[at];
  if (!node) return;
  const isOpen = tree.open.has(node);
  const to = {
    ArrowDown: () => tree.rows[Math.min(tree.rows.length - 1, at + 1)],
    ArrowUp: () => tree.rows[Math.max(0, at - 1)],
    ArrowRight: () => { if (isOpen) return heaviestFirst(node)[0] || node; if (node.below.size > 0) tree.open.add(node); return node; },
    ArrowLeft: () => { if (isOpen) { tree.open.delete(node); return node; } return node.above && node.above.above ? node.above : node; }
  }[event.key];
  if (!to) return;
  goTo(to());
  event.preventDefault();
}
