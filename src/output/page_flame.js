// The calls or the stacks of the run as a tree, in both directions, and its flame graph.
const rowHeight = 18, mostLevels = 800; // a canvas cannot be of any height
const newNode = (name, above) => ({ name, above, below: new Map(), hits: 0, own: 0, ownHits: 0, ownWaited: 0, measured: 0, waited: 0, level: above ? above.level + 1 : 0 });
const flame = { weight: "hits", view: "callees", graphs: {}, zoomed: null, current: null, shapes: [], hidden: 0 };

// Returns the child with this name; adds one if there is none.
function below(node, name) {
  let child = node.below.get(name);
  if (!child) node.below.set(name, child = newNode(name, node));
  return child;
}

function hasTree() { return run.track.length + run.stacks.length > 0; }

// Adds up for each node what it and all nodes below it have.
function addUp(root) {
  const order = [root];
  for (let i = 0; i < order.length; i++) for (const child of order[i].below.values()) order.push(child);
  for (const node of order) { node.hits = node.ownHits; node.measured = node.own; node.waited = node.ownWaited; }
  for (let i = order.length; i-- > 1;) {
    order[i].above.hits += order[i].hits;
    order[i].above.measured += order[i].measured;
    order[i].above.waited += order[i].waited;
  }
  return root;
}

function callees() {
  const root = newNode(NONE, null);
  if (run.stacks.length > 0) {
    for (const stack of run.stacks) {
      let node = root;
      for (const frame of stack.frames) node = below(node, frame);
      node.ownHits += stack.hits;
      node.own += stack.measured === null ? 0 : stack.measured;
    }
    return addUp(root);
  }
  const nodes = new Array(run.track.length), ofCalls = hasWaiting() ? waitingOfCalls() : null;
  for (const i of byTime) {
    if (run.waits.has(i)) continue;
    const node = below(parent[i] === NONE ? root : nodes[parent[i]], run.name.data[i]);
    nodes[i] = node;
    node.ownHits++;
    node.own += self[i];
    if (!ofCalls) continue;
    node.ownWaited += ofCalls[i];
    if (parent[i] !== NONE) nodes[parent[i]].ownWaited -= ofCalls[i];
  }
  return addUp(root);
}

function callers() {
  const root = newNode(NONE, null), queue = Array.from(graph("callees").below.values());
  while (queue.length) {
    const node = queue.pop();
    queue.push(...node.below.values());
    if (node.ownHits === 0 && node.own === 0 && node.ownWaited === 0) continue;
    let to = root;
    for (let from = node; from.above; from = from.above) to = below(to, from.name);
    to.ownHits += node.ownHits;
    to.own += node.own;
    to.ownWaited += node.ownWaited;
  }
  return addUp(root);
}

function graph(view) {
  if (!flame.graphs[view]) flame.graphs[view] = view === "callees" ? callees() : callers();
  return flame.graphs[view];
}

const weightOf = node => flame.weight === "hits" ? node.hits : flame.weight === "waiting" ? node.waited : node.measured;
const flameName = node => node.name === NONE ? "all" : run.names[node.name] || "?";
const flameText = node => {
  const whole = weightOf(graph(flame.view)), weight = weightOf(node);
  const file = node.name === NONE ? "" : run.modules[node.name];
  return flameName(node) + (file ? "\n" + file : "") + "\n" + amount(weight, flame.weight) + (whole ? " (" + (100 * weight / whole).toFixed(2) + "%)" : "");
};

// Returns what is drawn: frames of at least a pixel.
function layOut(width) {
  const shapes = [], zoomed = flame.zoomed || graph(flame.view);
  for (let node = zoomed; node; node = node.above) shapes.push({ node, x: 0, width, level: node.level });
  if (zoomed.level >= mostLevels) { // only the nearest of its callers
    shapes.splice(mostLevels / 2);
    const first = zoomed.level - shapes.length + 1;
    flame.hidden = first;
  } else flame.hidden = 0;
  const spread = (node, x) => {
    const scale = width / weightOf(zoomed);
    const queue = [[node, x]];
    while (queue.length) {
      const [each, left] = queue.pop();
      let at = left;
      const children = Array.from(each.below.values()).sort((a, b) => flameName(a) < flameName(b) ? -1 : 1);
      for (const child of children) {
        const wide = weightOf(child) * scale;
        if (wide >= 1 && child.level - zoomed.level < mostLevels) {
          shapes.push({ node: child, x: at, width: wide, level: child.level });
          queue.push([child, at]);
        }
        at += wide;
      }
    }
  };
  if (weightOf(zoomed) > 0) spread(zoomed, 0);
  return shapes;
}

function drawFlame() {
  const canvas = $("flame-canvas");
  const wanted = $("flame-search").value.toLowerCase();
  flame.shapes = layOut(canvas.clientWidth);
  const levels = flame.shapes.reduce((most, shape) => Math.max(most, shape.level), 0) + 1 - flame.hidden;
  const { paint } = prepare(canvas, levels * rowHeight);
  const colour = colours();
  let found = 0;
  for (const shape of flame.shapes) {
    const name = flameName(shape.node), y = (shape.level - flame.hidden) * rowHeight;
    const matches = wanted !== "" && name.toLowerCase().includes(wanted);
    if (matches) found++;
    paint.fillStyle = matches ? colour.mark : shape.node.name === NONE ? colour.line : colourOf(shape.node.name);
    paint.fillRect(shape.x, y, Math.max(1, shape.width - 1), rowHeight - 1);
    paint.fillStyle = shape.node.name === NONE ? colour.text : matches ? colour.ground : "#111";
    label(paint, name, shape.x, y + rowHeight / 2, shape.width);
    if (shape.node === flame.current) {
      paint.strokeStyle = colour.text;
      paint.lineWidth = 2;
      paint.strokeRect(shape.x + 1, y + 1, Math.max(1, shape.width - 3), rowHeight - 3);
    }
  }
  const isCut = flame.shapes.some(shape => shape.level - (flame.zoomed || graph(flame.view)).level === mostLevels - 1 && shape.node.below.size > 0);
  $("flame-cut").textContent = isCut ? "Deeper frames are not drawn: click one to go on from there." : "";
  $("flame-found").textContent = wanted === "" ? (flame.current ? flameText(flame.current).replace(/\n/g, ", ") : "")
    : count(found) + " frames, " + share(wanted);
}

// Returns the share of the frames that are found. A frame within another one that is found counts once.
function share(wanted) {
  let sum = 0;
  const queue = [graph(flame.view)], whole = weightOf(queue[0]);
  while (queue.length) {
    const node = queue.pop();
    if (node.name !== NONE && flameName(node).toLowerCase().includes(wanted)) sum += weightOf(node);
    else queue.push(...node.below.values());
  }
  return whole ? (100 * sum / whole).toFixed(2) + "%" : "";
}

function shapeAt(event) {
  const box = $("flame-canvas").getBoundingClientRect();
  const x = event.clientX - box.left, level = Math.floor((event.clientY - box.top) / rowHeight) + flame.hidden;
  return flame.shapes.find(shape => shape.level === level && x >= shape.x && x < shape.x + shape.width);
}

function zoomFlame(node) {
  flame.zoomed = node && node.above ? node : null;
  flame.current = node;
  drawFlame();
}

function flameKey(event) {
  const root = graph(flame.view), at = flame.current || root;
  const beside = by => {
    const all = at.above ? Array.from(at.above.below.values()).sort((a, b) => flameName(a) < flameName(b) ? -1 : 1) : [at];
    return all[Math.min(all.length - 1, Math.max(0, all.indexOf(at) + by))];
  };
  const heaviest = () => Array.from(at.below.values()).sort((a, b) => weightOf(b) - weightOf(a))[0] || at;
  const to = { ArrowDown: heaviest, ArrowUp: () => at.above || at, ArrowLeft: () => beside(-1), ArrowRight: () => beside(1) }[event.key];
  if (to) { flame.current = to(); drawFlame(); }
  else if (event.key === "Enter") zoomFlame(at);
  else if (event.key === "Escape") zoomFlame(null);
  else return;
  event.preventDefault();
}
