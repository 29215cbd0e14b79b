// Lays a graph out in layers, from left to right: what needs nothing comes first, and everything else right of all that it
// needs. An edge over several layers has a place in each of them, so that it crosses no node.

export interface Node { name: string; width: number; needs: readonly string[] }
export interface Placed { name: string; x: number; y: number; width: number } // x and y are its middle
export interface Laid { width: number; height: number; nodes: Placed[]; edges: string[] }

const height = 30, between = 14, gap = 44, margin = 10, lane = 12;

interface Cell { width: number; height: number; layer: number; before: Cell[]; after: Cell[]; y: number; x: number }

// layersOf returns in which layer each node is. One that needs itself in a circle stays where it was found first.
function layersOf(nodes: readonly Node[]): Map<string, number> {
  const by = new Map(nodes.map((n) => [n.name, n])), layers = new Map<string, number>(), open = new Set<string>();
  const layer = (n: Node): number => {
    const known = layers.get(n.name);
    if (known !== undefined) return known;
    open.add(n.name);
    let at = 0;
    for (const need of n.needs) {
      const other = by.get(need);
      if (other && !open.has(need)) at = Math.max(at, layer(other) + 1);
    }
    open.delete(n.name);
    layers.set(n.name, at);
    return at;
  };
  nodes.forEach(layer);
  return layers;
}

const mean = (cells: Cell[], own: number): number => cells.length === 0 ? own : cells.reduce((sum, c) => sum + c.y, 0) / cells.length;

// settle puts the cells of a layer where they want to be, as far as there is room, without changing their order.
function settle(cells: Cell[], wants: (c: Cell) => number): void {
  const want = cells.map(wants);
  let floor = -Infinity, off = 0;
  cells.forEach((c, i) => {
    c.y = Math.max(want[i] ?? 0, floor + c.height / 2);
    floor = c.y + c.height / 2 + between;
    off += c.y - (want[i] ?? 0);
  });
  for (const c of cells) c.y -= off / cells.length; // half of them moved down, so all move up
}

// arrange orders the cells of each layer by where their neighbours are, and puts them near these.
function arrange(layers: Cell[][]): void {
  for (const cells of layers) cells.forEach((c, i) => { c.y = i * (height + between); });
  for (let sweep = 0; sweep < 8; sweep++) {
    const down = sweep % 2 === 0, from = (c: Cell) => mean(down ? c.before : c.after, c.y);
    for (const cells of down ? layers : [...layers].reverse()) {
      const at = new Map(cells.map((c) => [c, from(c)]));
      cells.sort((a, b) => (at.get(a) ?? 0) - (at.get(b) ?? 0));
      settle(cells, (c) => at.get(c) ?? 0);
    }
  }
}

// line draws an edge through the cells that it passes.
function line(cells: Cell[]): string {
  const points = cells.flatMap((c, i) => i === 0 ? [[c.x + c.width / 2, c.y]] : i === cells.length - 1 ? [[c.x - c.width / 2, c.y]] : [[c.x - c.width / 2, c.y], [c.x + c.width / 2, c.y]]);
  let path = "";
  points.forEach(([x = 0, y = 0], i) => {
    const [px = 0, py = 0] = points[i - 1] ?? [];
    const middle = (px + x) / 2;
    path += i === 0 ? `M${x},${y}` : py === y ? `L${x},${y}` : `C${middle},${py} ${middle},${y} ${x},${y}`;
  });
  return path;
}

export function lay(nodes: readonly Node[]): Laid {
  const at = layersOf(nodes), layers: Cell[][] = [], cells = new Map<string, Cell>();
  const put = (layer: number, width: number, high: number): Cell => {
    const c = { width, height: high, layer, before: [], after: [], x: 0, y: 0 };
    (layers[layer] ??= []).push(c);
    return c;
  };
  for (const n of nodes) cells.set(n.name, put(at.get(n.name) ?? 0, n.width, height));
  const edges: Cell[][] = [];
  for (const n of nodes) for (const need of n.needs) {
    const from = cells.get(need), to = cells.get(n.name);
    if (!from || !to || from.layer >= to.layer) continue;
    const path = [from];
    for (let l = from.layer + 1; l < to.layer; l++) path.push(put(l, 0, lane));
    path.push(to);
    path.forEach((c, i) => { const next = path[i + 1]; if (next) { c.after.push(next); next.before.push(c); } });
    edges.push(path);
  }
  arrange(layers);
  let x = margin;
  for (const layer of layers) {
    const wide = Math.max(...layer.map((c) => c.width));
    for (const c of layer) { c.x = x + wide / 2; if (c.width === 0) c.width = wide; }
    x += wide + gap;
  }
  const all = layers.flat();
  const top = Math.min(...all.map((c) => c.y - c.height / 2)), bottom = Math.max(...all.map((c) => c.y + c.height / 2));
  for (const c of all) c.y = Math.round((c.y - top + margin) * 10) / 10;
  return {
    width: x - gap + margin, height: bottom - top + 2 * margin, edges: edges.map(line),
    nodes: nodes.map((n) => { const c = cells.get(n.name)!; return { name: n.name, x: c.x, y: c.y, width: n.width }; }),
  };
}
