// What the timeline of a run shows: bars and lines with their instants, from the run and its forecast. It draws nothing.
import type { Attempt, Deadline, Run, Step } from "./api.ts";
import { parse } from "./time.ts";

export type BarKind = "queued" | "running" | "stopping" | "backoff" | "asleep" | "paused" | "ghost";

export interface Bar {
  kind: BarKind;
  from: number;
  to: number;
  attempt: number; // 0: it belongs to the step
  bad: boolean; // how the attempt ended
  open: boolean; // it still grows
  title: string;
}

export interface Line {
  at: number;
  limit: string;
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

function limitTitle(d: { limit: string; after?: string; origin?: string }): string {
  return [d.limit, d.after, d.origin && `set at ${d.origin}`].filter(Boolean).join(", ");
}

function attemptBars(s: Step, a: Attempt, now: number): Bar[] {
  const bars: Bar[] = [];
  const ready = parse(a.readyAt), started = parse(a.startedAt), ended = parse(a.endedAt), next = parse(a.nextAt);
  const bad = a.outcome !== undefined && a.outcome !== "succeeded";
  const add = (kind: BarKind, from: number, to: number, open: boolean, title: string) => {
    if (to > from || open) bars.push({ kind, from, to: Math.max(to, from), attempt: a.attempt, bad, open, title });
  };
  const n = `attempt ${a.attempt}`;
  if (Number.isFinite(ready)) {
    const until = or(started, ended, now);
    const open = !Number.isFinite(started) && !Number.isFinite(ended);
    add("queued", ready, until, open, `${n}: ${a.held?.reason ? `held, ${a.held.reason}` : "waits for a worker"}`);
  }
  if (Number.isFinite(started)) {
    const how = a.outcome ? `${a.outcome}${a.why ? `: ${a.why}` : ""}` : "runs";
    const worker = a.worker ? ` on ${a.worker}` : "";
    const to = or(ended, now);
    bars.push({ kind: "running", from: started, to, attempt: a.attempt, bad, open: !Number.isFinite(ended), title: `${n}${worker}: ${how}` });
  }
  const last = s.attempts?.[s.attempts.length - 1];
  const stopping = last === a && s.stopping === true;
  if (Number.isFinite(ended) && (stopping || parse(a.stoppedAt) > ended)) {
    const what = a.abandoned ? "abandoned" : a.killed ? "killed" : stopping ? "told to stop" : "stopped";
    add("stopping", ended, or(parse(a.stoppedAt), now), stopping, `${n}: ${what}`);
  }
  if (Number.isFinite(ended) && Number.isFinite(next)) {
    add("backoff", ended, Math.max(next, ended), false, `${n}: backs off`);
  }
  return bars;
}

function stepBars(s: Step, now: number): Bar[] {
  const attempts = s.attempts ?? [];
  if (attempts.length > 0) return attempts.flatMap((a) => attemptBars(s, a, now));
  const from = parse(s.scheduledAt), ended = parse(s.endedAt);
  if (!Number.isFinite(from)) return [];
  const open = !Number.isFinite(ended);
  const what = s.kind === "wait" ? `waits for ${s.event ?? s.update ?? "an event"}` : s.kind === "sleep" ? "sleeps" : s.phase;
  return [{ kind: "asleep", from, to: or(ended, now), attempt: 0, bad: s.phase === "timed_out" || s.phase === "failed", open, title: what }];
}

// stepLimits are the deadlines of a step: the stored ones, and the one that comes first where it is the step's own.
function stepLimits(s: Step): Deadline[] {
  const all = s.deadlines ?? [];
  const b = s.binding;
  return b && b.limit !== "run" && b.limit !== "execution" && !all.some((d) => d.limit === b.limit) ? [...all, b] : all;
}

// ghosts are the attempts to come.
function ghosts(s: Step): Bar[] {
  return (s.ahead?.attempts ?? []).map((a) => {
    const from = parse(a.from);
    return { kind: "ghost", from, to: or(parse(a.to), from), attempt: a.attempt, bad: true, open: false, title: `attempt ${a.attempt} would begin` };
  });
}

// The bars of a step that has ended stay as they are.
const drawn = new WeakMap<Step, Bar[]>();

function barsOf(s: Step, now: number): Bar[] {
  if (!isClosed(s.phase) || s.stopping) return [...stepBars(s, now), ...ghosts(s)];
  let bars = drawn.get(s);
  if (!bars) drawn.set(s, bars = stepBars(s, now));
  return bars;
}

interface Pause { from: number; to: number; title: string }

// pauses are the times at which the run was paused; of a pause that goes on, until now.
function pauses(run: Run, now: number): Pause[] {
  const out: Pause[] = [];
  let began = NaN, by = "";
  const end = (to: number) => { if (Number.isFinite(began)) out.push({ from: began, to, title: `paused${by}` }); began = NaN; };
  for (const op of run.operations ?? []) {
    if (op.step) continue;
    if (op.operation === "pause" && !Number.isFinite(began)) { began = parse(op.at); by = op.actor ? ` by ${op.actor}` : ""; }
    if (op.operation === "resume") end(parse(op.at));
  }
  end(or(parse(run.endedAt), now));
  return out;
}

// paused are the bars of a step that was open while the run was paused.
function paused(s: Step, all: Pause[], now: number): Bar[] {
  const begun = parse(s.scheduledAt), ended = or(parse(s.endedAt), now);
  return all.map((p) => ({ from: Math.max(p.from, begun), to: Math.min(p.to, ended), title: p.title }))
    .filter((p) => p.to > p.from).map((p) => ({ ...p, kind: "paused", attempt: 0, bad: false, open: false }));
}

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
  const breaks = pauses(run, now);
  const groups = new Set(steps.filter((s) => items.has(s.step)).map((s) => s.step));
  const rows: Row[] = steps.filter((s) => !s.group || !groups.has(s.group) || unfolded.has(s.group)).map((s) => ({
    step: s,
    depth: s.group ? 1 : 0,
    fold: items.get(s.step) ?? "",
    open: unfolded.has(s.step),
    bars: breaks.length > 0 ? [...barsOf(s, now), ...paused(s, breaks, now)] : barsOf(s, now),
    lines: stepLimits(s).map((d) => ({ at: parse(d.at), limit: d.limit, title: limitTitle(d) })),
  }));
  const lines = (run.deadlines ?? []).map((d) => ({ at: parse(d.at), limit: d.limit, title: limitTitle(d) }));
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
