// Lays time out over a width, with breaks: time in which something runs is wide, idle time is short whatever its length.
// It draws nothing.

export interface Span { from: number; to: number }

export interface Piece extends Span {
  x: number; // where it begins, in pixels
  width: number;
  idle: boolean;
  cut: boolean; // it is idle and far shorter than it would be
}

export interface Axis extends Span { width: number; pieces: Piece[] }

const least = 17; // pixels of a piece in which something runs, so that a number of two digits fits in
const perDoubling = 24; // pixels for each doubling beyond the usual attempt
const idleLeast = 14, idleMost = 58;
const joined = 2; // pixels: shorter pieces join

// median returns the usual length of spans; 1 s where there are none.
export function median(spans: readonly Span[]): number {
  const all = spans.map((s) => s.to - s.from).filter((n) => n > 0).sort((a, b) => a - b);
  return all[Math.floor(all.length / 2)] ?? 1000;
}

const weight = (length: number, idle: boolean, usual: number): number => idle
  ? Math.min(Math.max(9 * Math.log2(1 + 2 * length / 1000), idleLeast), idleMost)
  : Math.max(least, perDoubling * Math.log2(1 + length / usual));

// covered says of each span between two knots whether something runs in it.
function covered(knots: readonly number[], busy: readonly Span[]): boolean[] {
  const at = new Map(knots.map((k, i) => [k, i]));
  const change = new Array<number>(knots.length).fill(0);
  for (const s of busy) {
    const from = at.get(s.from), to = at.get(s.to);
    if (from === undefined || to === undefined || to <= from) continue;
    change[from] = (change[from] ?? 0) + 1;
    change[to] = (change[to] ?? 0) - 1;
  }
  let open = 0;
  return change.map((c) => (open += c) > 0);
}

// broken lays the time between two instants out. busy are the spans in which something runs; marks are the other
// instants that matter, such as limits. Between two instants that matter time goes evenly.
export function broken(busy: readonly Span[], marks: readonly number[], from: number, to: number, width: number): Axis {
  const clamp = (t: number) => Math.min(Math.max(t, from), to);
  const spans = busy.map((s) => ({ from: clamp(s.from), to: clamp(s.to) }));
  const knots = [...new Set([from, to, ...spans.flatMap((s) => [s.from, s.to]), ...marks.map(clamp)])]
    .filter(Number.isFinite).sort((a, b) => a - b);
  const runs = covered(knots, spans), usual = median(spans);
  const raw: { to: number; weight: number; idle: boolean }[] = [];
  for (let i = 1; i < knots.length; i++) {
    const idle = !runs[i - 1], length = (knots[i] ?? 0) - (knots[i - 1] ?? 0);
    raw.push({ to: knots[i] ?? to, weight: weight(length, idle, usual), idle });
  }
  const scale = width / Math.max(raw.reduce((sum, p) => sum + p.weight, 0), 1);
  const pieces: Piece[] = [];
  let x = 0, start = from, weighs = 0, idle = true;
  raw.forEach((p, i) => {
    weighs += p.weight;
    idle &&= p.idle;
    if (weighs * scale < joined && i < raw.length - 1) return;
    const wide = weighs * scale;
    pieces.push({ from: start, to: p.to, x, width: wide, idle, cut: idle && weighs >= idleMost });
    x += wide;
    [start, weighs, idle] = [p.to, 0, true];
  });
  return { from, to, width, pieces };
}

// even lays time out as it went.
export const even = (from: number, to: number, width: number): Axis =>
  ({ from, to, width, pieces: [{ from, to, x: 0, width, idle: false, cut: false }] });

// scaled is the same axis over another width.
export function scaled(axis: Axis, width: number): Axis {
  const by = width / axis.width;
  return { ...axis, width, pieces: axis.pieces.map((p) => ({ ...p, x: p.x * by, width: p.width * by })) };
}

// find returns the piece in which something is true for the first time, by halves; the last one where it never is.
function find(pieces: readonly Piece[], reached: (p: Piece) => boolean): Piece | undefined {
  let low = 0, high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reached(pieces[middle]!)) high = middle; else low = middle + 1;
  }
  return pieces[low];
}

// place returns where an instant is, in pixels.
export function place(axis: Axis, at: number): number {
  const p = find(axis.pieces, (q) => q.to >= at);
  if (!p || p.to <= p.from) return 0;
  return p.x + p.width * Math.min(Math.max((at - p.from) / (p.to - p.from), 0), 1);
}

// instantAt returns the instant at a place.
export function instantAt(axis: Axis, x: number): number {
  const p = find(axis.pieces, (q) => q.x + q.width >= x);
  if (!p || p.width <= 0) return axis.from;
  return p.from + (p.to - p.from) * Math.min(Math.max((x - p.x) / p.width, 0), 1);
}

const sizes = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat(
  [1, 2, 5, 10, 15, 30].map((s) => s * 1000), [1, 2, 5, 10, 15, 30].map((m) => m * 60_000),
  [1, 2, 3, 6, 12].map((h) => h * 3_600_000), [1, 2, 7, 14, 30, 90, 365].map((d) => d * 86_400_000));

// ticks are round instants across a span, counted from its beginning, at most about n.
export function ticks(from: number, to: number, n: number): number[] {
  const size = sizes.find((s) => (to - from) / s <= n) ?? sizes[sizes.length - 1] ?? 1;
  const out: number[] = [];
  for (let t = 0; from + t <= to; t += size) out.push(from + t);
  return out;
}

export interface Tick { at: number; x: number }

// marked are the instants that get a label on an axis: where its pieces meet, and round ones in pieces that are wide.
// No two are nearer than a number of pixels.
export function marked(axis: Axis, apart: number): Tick[] {
  const wanted = axis.pieces.flatMap((p) =>
    p.cut || p.width < 2 * apart ? [p.from] : [p.from, ...ticks(axis.from, p.to, axis.width / apart).filter((t) => t > p.from && t < p.to)]);
  const out: Tick[] = [];
  for (const at of wanted) {
    const x = place(axis, at), last = out[out.length - 1];
    if (!last || x - last.x >= apart) out.push({ at, x });
  }
  return out;
}
