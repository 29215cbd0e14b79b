// Says in one sentence what a run is doing, or why it ended.
import type { Deadline, Run, Step } from "./api.ts";
import { isClosed } from "./timeline.ts";
import { length, parse } from "./time.ts";

const within = (d: Deadline | undefined, now: number): string =>
  d ? ` The limit ${d.limit} ends it in ${length(parse(d.at) - now)}${d.origin ? ` (${d.origin})` : ""}.` : "";

// doing says what an open step is doing.
export function doing(s: Step, now: number): string {
  const n = s.attempt ?? 0;
  const of = s.maxAttempts ? ` of ${s.maxAttempts}` : "";
  switch (s.phase) {
    case "running":
      return s.kind === "flow" ? "its child run goes on" : `attempt ${n}${of} runs${s.startedAt ? ` for ${length(now - parse(s.startedAt))}` : ""}`;
    case "backing_off":
      return `backs off: attempt ${n + 1}${of} in ${length(Math.max(parse(s.nextAt) - now, 0))}`;
    case "scheduled":
      return s.held ? `attempt ${n || 1} is held: ${s.held.reason}` : `attempt ${n || 1}${of} waits for a worker`;
    case "suspended":
      if (s.kind === "sleep") return `sleeps for another ${length(Math.max(parse(s.nextAt) - now, 0))}`;
      return `waits for ${s.event ? `event ${s.event}` : s.update ? `update ${s.update}` : "something from outside"}`;
    default:
      return s.phase.replaceAll("_", " ");
  }
}

export function why(run: Run, now: number): string {
  if (isClosed(run.phase)) return run.why || (run.phase === "succeeded" ? "It succeeded." : `It is ${run.phase.replaceAll("_", " ")}.`);
  if (run.pausedAt) return `Somebody paused it ${length(now - parse(run.pausedAt))} ago.` + within(run.binding, now);
  if (run.held) return `It waits for its queue: ${run.held.reason}.`;
  if (run.startAt && !run.startedAt) return `It begins in ${length(parse(run.startAt) - now)}.`;
  const open = (run.steps ?? []).filter((s) => !isClosed(s.phase) && s.kind !== "group");
  const first = open.find((s) => s.phase === "running") ?? open.find((s) => s.phase === "backing_off") ?? open[0];
  if (!first) return `It is ${run.closing ? `about to end as ${run.closing.replaceAll("_", " ")}` : run.phase}.` + within(run.binding, now);
  const others = open.length > 1 ? `, and ${open.length - 1} more step${open.length > 2 ? "s are" : " is"} open` : "";
  return `${first.step} ${doing(first, now)}${others}.` + within(first.binding ?? run.binding, now);
}
