// Lays the bars of a run out, which the server gives, and the lines of what bounds it. It draws nothing.
import type { Run, Step } from "./api.ts";
import { parse } from "./time.ts";

export interface Bar {
  kind: string;
  from: number;
  to: number;
  attempt: number; // 0: it belongs to the step
  bad: boolean; // how it ended
  open: boolean; // it still grows
  title: string;
}

export interface Line {
  at: number;
  givesUp: boolean; // the step gives up then, before a limit
  title: string; // with the place where it was set
}

export interface Row {
  step: Step;
  depth: number; // 1: an item of a forEach
  fold: string; // of a group whose items are folded or shown: how many there are and how they stand
  open: boolean; // its items are shown
  bars: Bar[];
  lines: Line[];
}

export interface Timeline {
  from: number;
  to: number;
  rows: Row[];
  lines: Line[]; // of the run
}

const closed = new Set(["succeeded", "failed", "timed_out", "cancelled", "skipped", "terminated", "continued"]);
export const isClosed = (phase: string): boolean => closed.has(phase);

// or returns the first instant that is one.
const or = (...all: number[]): number => all.find((n) => Number.isFinite(n)) ?? NaN;

// The bars of a step that has ended stay as they are.
const drawn = new WeakMap<Step, Bar[]>();

function barsOf(s: Step, now: number): Bar[] {
  const kept = drawn.get(s);
  if (kept) return kept;
  const bars = (s.bars ?? []).map((b) => {
    const from = parse(b.from), to = parse(b.to), open = !Number.isFinite(to);
    return { kind: b.kind, from, to: open ? Math.max(now, from) : to, attempt: b.attempt ?? 0, bad: b.bad === true, open, title: b.text };
  });
  if (!bars.some((b) => b.open)) drawn.set(s, bars);
  return bars;
}

const linesOf = (all: Run["bounds"]): Line[] => (all ?? []).map((b) => ({ at: parse(b.at), givesUp: b.givesUp === true, title: b.text }));

// counted says how the items of each group stand: 5 succeeded, 1 failed.
function counted(steps: Step[]): Map<string, string> {
  const counts = new Map<string, Map<string, number>>();
  for (const s of steps) {
    if (!s.group) continue;
    const of = counts.get(s.group) ?? new Map<string, number>();
    of.set(s.phase, (of.get(s.phase) ?? 0) + 1);
    counts.set(s.group, of);
  }
  return new Map([...counts].map(([g, of]) => [g, [...of].map(([p, n]) => `${n} ${p.replaceAll("_", " ")}`).join(", ")]));
}

// timeline lays out a run. unfolded are the groups whose items have rows of their own.
export function timeline(run: Run, now: number, unfolded: ReadonlySet<string>): Timeline {
  const steps = run.steps ?? [];
  const items = counted(steps);
  const groups = new Set(steps.filter((s) => items.has(s.step)).map((s) => s.step));
  const rows: Row[] = steps.filter((s) => !s.group || !groups.has(s.group) || unfolded.has(s.group)).map((s) => ({
    step: s,
    depth: s.group ? 1 : 0,
    fold: items.get(s.step) ?? "",
    open: unfolded.has(s.step),
    bars: barsOf(s, now),
    lines: linesOf(s.bounds),
  }));
  const lines = linesOf(run.bounds);
  const from = parse(run.createdAt);
  const end = or(parse(run.endedAt), now);
  let to = end;
  for (const r of rows) for (const b of r.bars) to = Math.max(to, b.to);
  // A deadline that is near is in the picture; one that is far would make everything else a dot.
  const reach = to + Math.max(to - from, 1000);
  for (const l of [...lines, ...rows.flatMap((r) => r.lines)]) {
    if (l.at > to && l.at <= reach) to = l.at;
  }
  return { from, to: to + Math.max((to - from) * 0.02, 200), rows, lines };
}

// ticks are round instants across a span, at most about n.
export function ticks(from: number, to: number, n: number): { at: number; label: string }[] {
  const sizes = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat(
    [1, 2, 5, 10, 15, 30].map((s) => s * 1000), [1, 2, 5, 10, 15, 30].map((m) => m * 60_000),
    [1, 2, 3, 6, 12].map((h) => h * 3_600_000), [1, 2, 7, 14, 30, 90, 365].map((d) => d * 86_400_000));
  const size = sizes.find((s) => (to - from) / s <= n) ?? sizes[sizes.length - 1] ?? 1;
  const out: { at: number; label: string }[] = [];
  for (let t = 0; from + t <= to; t += size) out.push({ at: from + t, label: "" });
  return out;
}
