// The words for what runs and steps are in, each with its sign and its colour. They are the same everywhere.
import type { RunSummary, Step } from "./api.ts";

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
  stuck: state("Stuck", "▲", "bad"),
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

// stateOf returns how the status of a run or a step is shown, or a phase.
export const stateOf = (status: string): State => ofPhase[status] ?? state(status, "·", "hold");

// stateOfStep returns the state of a step; undefined is one that has not begun.
export const stateOfStep = (s: Step | undefined): State => s ? stateOf(s.status) : states.planned;

// stateOfRun returns the state of a run, or of a run in a list.
export const stateOfRun = (r: RunSummary): State => stateOf(r.status);
