// Lays the rows of a timeline out: the steps of a run with their bars, which the server gives, and the steps to come.
// It draws nothing.
import type { End, Run, Step } from "./api.ts";
import { broken, even, type Axis, type Piece, type Span } from "./axis.ts";
import { rowsOf } from "./rows.ts";
import { length, parse, readLength } from "./time.ts";

export interface Bar extends Span {
  kind: string;
  attempt: number; // 0: it belongs to the step
  bad: boolean; // how it ended
  open: boolean; // it still grows
  title: string;
}

// Gap is the time between two attempts that are to come.
export interface Gap extends Span { text: string }

// Strip counts the attempts of items by parts of time, all and the bad ones.
export interface Strip { from: number; each: number; ran: readonly number[]; bad: readonly number[] }

export interface Row {
  key: string; // of the step; of one that has not begun, its name
  name: string;
  step: Step | undefined; // undefined: it has not begun
  depth: number; // above 0: an item of a forEach, or a step of a child run
  run: string; // the child run that the step is of; "": the run itself
  fold: string; // of a group: how many items there are and how they stand; of a step with a child run: its words
  open: boolean; // its items, or its child run, are shown
  bars: Bar[];
  gaps: Gap[];
  came: Bar[]; // what another run, or the same one later, did in the same step
  items: Bar[]; // of a folded group: the attempts of its items
  strip: Strip | null; // the same where the server has counted them
  more: { group: string; offset: number } | null; // it stands for items that the server has
}

// Line is an instant at which something may end.
export interface Line {
  at: number;
  text: string;
  step: string; // "": of the run
  first: boolean; // it comes first
}

export interface Timeline extends Span {
  rows: Row[];
  lines: Line[];
  busy: Span[];
  marks: number[];
  told: Span[]; // idle time whose length a bar tells
}

const closed = new Set(["succeeded", "failed", "timed_out", "cancelled", "skipped", "terminated", "continued"]);
export const isClosed = (phase: string): boolean => closed.has(phase);

// The bars of a step that has ended stay as they are.
const drawn = new WeakMap<Step, Bar[]>();

export function barsOf(s: Step): Bar[] {
  const kept = drawn.get(s);
  if (kept) return kept;
  const bars = (s.bars ?? []).map((b) => {
    const to = parse(b.to);
    return {
      kind: b.kind, from: parse(b.from), to, attempt: b.attempt ?? 0, bad: b.bad === true, open: !Number.isFinite(to),
      title: b.text,
    };
  });
  drawn.set(s, bars);
  return bars;
}

// gapsOf returns the pauses before attempts that are to come.
export function gapsOf(bars: Bar[]): Gap[] {
  const ahead = bars.filter((b) => b.kind === "ahead");
  return ahead.slice(1).map((b, i) => {
    const from = ahead[i]?.to ?? b.from;
    return { from, to: b.from, text: length(b.from - from) };
  });
}

// linesOf returns the lines of what can end a run. A limit that each sign of life moves has none.
function linesOf(ends: End[] | null | undefined): Line[] {
  const lines = (ends ?? []).filter((e) => !e.renewed).map((e) => ({ at: parse(e.at), text: e.text, step: e.step ?? "", first: false })).filter((l) => Number.isFinite(l.at));
  const first = lines.reduce((a, l) => Math.min(a, l.at), Infinity);
  return lines.map((l) => ({ ...l, first: l.at === first }));
}

export const isAttempt = (b: Bar): boolean => b.kind === "running" || b.kind === "ahead" || b.kind === "stopping";

// spansOf returns when something of a strip ran.
function spansOf(s: Strip): Span[] {
  const out: Span[] = [];
  s.ran.forEach((n, i) => {
    const from = s.from + i * s.each, last = out[out.length - 1];
    if (n === 0) return;
    if (last && last.to >= from - 1) last.to = from + s.each;
    else out.push({ from, to: from + s.each });
  });
  return out;
}

// Beside is a run whose bars are drawn below those of another one, as if it had begun so much later.
export interface Beside { run: Run; by: number; after?: number }

function bars(of: Beside | null | undefined): (key: string) => Bar[] {
  if (!of) return () => [];
  const known = new Map((of.run.steps ?? []).map((s) => [s.step, s])), after = of.after ?? 0;
  return (key) => {
    const s = known.get(key);
    return s ? barsOf(s).filter((b) => b.kind !== "ahead" && !b.open && b.to > after).map((b) => ({ ...b, from: b.from + of.by, to: b.to + of.by })) : [];
  };
}

const none: ReadonlyMap<string, Run> = new Map();

// timeline lays out a run as it stands at an instant. unfolded are the rows whose items or child runs have rows of their
// own. beside is another run, or the same one as it is now.
export function timeline(run: Run, now: number, unfolded: ReadonlySet<string>, beside?: Beside | null, children = none): Timeline {
  const rows = rowsOf(run, { unfolded, children, came: bars(beside) }), lines = linesOf(run.ends);
  const steps = [run, ...children.values()].flatMap((r) => r.steps ?? []), all = steps.flatMap(barsOf);
  const strips = steps.flatMap((s) => { const strip = stripOf(s); return strip ? spansOf(strip) : []; });
  const from = parse(run.createdAt), over = parse(run.endedAt);
  let to = Number.isFinite(over) ? over : now;
  for (const r of rows) for (const b of r.came) if (b.to > to) to = b.to;
  for (const b of all) if (b.to > to) to = b.to;
  for (const l of lines) if (l.at > to) to = l.at;
  // Where nothing bounds what is open, there is room for it to go on.
  if (to <= now && !Number.isFinite(over)) to = now + Math.max((now - from) / 5, 2000);
  const busy = [...all.filter(isAttempt).map((b) => ({ from: b.from, to: b.open ? to : b.to })), ...strips];
  const marks = [...lines.map((l) => l.at), ...rows.flatMap((r) => r.came.flatMap((b) => [b.from, b.to])), ...all.flatMap((b) => b.open ? [b.from] : [b.from, b.to]), ...strips.flatMap((s) => [s.from, s.to])];
  const told = rows.flatMap((r) => [...r.gaps, ...r.bars.filter((b) => !isAttempt(b)).map((b) => ({ from: b.from, to: b.open ? to : b.to }))]);
  return { from, to: Math.max(to, from + 1), rows, lines, busy, marks, told };
}

// stripOf returns when the items of a group ran that are not there one by one.
export function stripOf(s: Step): Strip | null {
  const f = s.folded;
  return f?.ran?.length ? { from: parse(f.from), each: readLength(f.each), ran: f.ran, bad: f.bad ?? [] } : null;
}

// axisOf lays the time of a timeline out over a width: as it went, or with breaks.
export const axisOf = (t: Timeline, width: number, trueTime: boolean): Axis =>
  trueTime ? even(t.from, t.to, width) : broken(t.busy, t.marks, t.from, t.to, width);

// matters returns the step that one wants to see first: one that runs, is tried again, failed or waits; else the last.
export function matters(run: Run): Step | undefined {
  const all = (run.steps ?? []).filter((s) => !s.superseded), groups = new Set(all.filter((s) => s.kind === "group").map((s) => s.step));
  const steps = all.filter((s) => !s.group || !groups.has(s.group)); // a group stands for its items
  const rank = (s: Step) => {
    if (s.phase === "succeeded" && (s.failedItems ?? 0) > 0) return 2;
    const i = ["running", "backing_off", "failed", "timed_out", "scheduled", "suspended"].indexOf(s.phase);
    return i < 0 ? 9 : i;
  };
  const best = steps.reduce<Step | undefined>((a, s) => (a === undefined || rank(s) < rank(a) ? s : a), undefined);
  return best && rank(best) < 9 ? best : steps[steps.length - 1];
}

// cuts are the pieces of an axis that are far shorter than they were, and that no bar tells the length of.
export const cuts = (t: Timeline, axis: Axis): Piece[] =>
  axis.pieces.filter((p) => p.cut && !t.told.some((s) => s.from <= p.from && s.to >= p.to));

export interface Cell { x: number; width: number; share: number; bad: number }

// density counts the attempts of many items by columns of an axis, all and the bad ones, as shares of the fullest column.
export function density(bars: readonly Bar[], at: (t: number) => number, width: number, column = 4): Cell[] {
  const n = Math.max(Math.ceil(width / column), 1), counts = new Array<number>(n).fill(0), bad = new Array<number>(n).fill(0);
  for (const b of bars) {
    const first = Math.floor(at(b.from) / column), last = b.open ? first : Math.max(Math.ceil(at(b.to) / column) - 1, first);
    for (let i = Math.max(first, 0); i <= Math.min(last, n - 1); i++) {
      counts[i] = (counts[i] ?? 0) + 1;
      if (b.bad) bad[i] = (bad[i] ?? 0) + 1;
    }
  }
  const most = Math.max(...counts, 1);
  return counts.flatMap((c, i) => c > 0 ? [{ x: i * column, width: column, share: c / most, bad: (bad[i] ?? 0) / most }] : []);
}

// stripCells are the cells of a strip, by columns of an axis.
export function stripCells(s: Strip, at: (t: number) => number, width: number, column = 4): Cell[] {
  const n = Math.max(Math.ceil(width / column), 1), ran = new Array<number>(n).fill(0), bad = new Array<number>(n).fill(0);
  s.ran.forEach((count, p) => {
    if (count === 0) return;
    const first = Math.floor(at(s.from + p * s.each) / column), last = Math.max(Math.ceil(at(s.from + (p + 1) * s.each) / column) - 1, first);
    for (let i = Math.max(first, 0); i <= Math.min(last, n - 1); i++) {
      ran[i] = Math.max(ran[i] ?? 0, count);
      bad[i] = Math.max(bad[i] ?? 0, s.bad[p] ?? 0);
    }
  });
  const most = Math.max(...ran, 1);
  return ran.flatMap((c, i) => c > 0 ? [{ x: i * column, width: column, share: c / most, bad: (bad[i] ?? 0) / most }] : []);
}

// doneOf says how many of a run's steps have ended. Items of a forEach count with it.
export function doneOf(run: Run): { done: number; of: number } {
  const own = (run.steps ?? []).filter((s) => !s.group && !s.hook && !s.superseded);
  const names = new Set([...own.map((s) => s.name), ...(run.plan ?? []).map((p) => p.name)]);
  return { done: own.filter((s) => isClosed(s.phase)).length, of: Math.max(names.size, own.length) };
}
