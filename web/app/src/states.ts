// The words for what runs and steps are in, each with its sign and its colour. They are the same everywhere.
import type { Run, RunSummary, Step } from "./api.ts";

export interface State {
  word: string;
  icon: string;
  tone: "ok" | "bad" | "warn" | "run" | "wait" | "hold";
}

const state = (word: string, icon: string, tone: State["tone"]): State => ({ word, icon, tone });

// The sign after an icon asks for the form that is text, and not a picture.
const states = {
  planned: state("Not begun", "○", "hold"),
  queued: state("Queued", "◷", "hold"),
  running: state("Running", "▶\ufe0e", "run"),
  retrying: state("Retrying", "↻", "warn"),
  waiting: state("Waiting", "◌", "wait"),
  sleeping: state("Sleeping", "☾", "wait"),
  held: state("Held", "‖", "hold"),
  paused: state("Paused", "▮▮", "hold"),
  stopping: state("Stopping", "◼\ufe0e", "warn"),
  succeeded: state("Succeeded", "✓", "ok"),
  failed: state("Failed", "✗", "bad"),
  timed_out: state("Timed out", "⋈", "bad"),
  cancelled: state("Cancelled", "⊘", "hold"),
  terminated: state("Terminated", "■", "bad"),
  skipped: state("Skipped", "–", "hold"),
  continued: state("Continued", "→", "ok"),
};

const ofPhase: Record<string, State> = {
  ...states, pending: states.queued, scheduled: states.queued, backing_off: states.retrying, suspended: states.waiting,
};

// stateOf returns the state of a phase.
export const stateOf = (phase: string): State => ofPhase[phase] ?? state(phase, "·", "hold");

// stateOfStep returns the state of a step; undefined is one that has not begun.
export function stateOfStep(s: Step | undefined): State {
  if (!s) return states.planned;
  if (s.held) return states.held;
  if (s.phase === "suspended" && s.kind === "sleep") return states.sleeping;
  return stateOf(s.phase);
}

const inOrder = ["running", "backing_off", "scheduled", "suspended"];

// stateOfRun returns the state of a run: that of the step that matters, while nothing is said of the run itself.
export function stateOfRun(r: Run): State {
  if (r.closing || r.stopping || r.cancelAsked) return isOpen(r.phase) ? states.stopping : stateOf(r.phase);
  if (r.phase !== "running" && r.phase !== "waiting") return stateOf(r.phase);
  const open = (r.steps ?? []).filter((s) => inOrder.includes(s.phase));
  const phase = inOrder.find((p) => open.some((s) => s.phase === p));
  const first = open.find((s) => s.phase === phase);
  return first ? stateOfStep(first) : stateOf(r.phase);
}

const isOpen = (phase: string): boolean => ["pending", "running", "waiting", "paused"].includes(phase);

// stateOfSummary returns the state of a run in a list.
export function stateOfSummary(r: RunSummary): State {
  if (!isOpen(r.phase)) return stateOf(r.phase);
  if (r.stopping) return states.stopping;
  return r.retrying && r.phase !== "paused" ? states.retrying : stateOf(r.phase);
}
