// The words for states.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Run, Step } from "./api.ts";
import { stateOf, stateOfRun, stateOfStep } from "./states.ts";

const step = (phase: string, more: object = {}) => ({ phase, ...more }) as Step;
const run = (phase: string, steps: Step[], more: object = {}) => ({ phase, steps, ...more }) as Run;

test("each phase has a word of its own", () => {
  assert.equal(stateOf("backing_off").word, "Retrying");
  assert.equal(stateOf("timed_out").word, "Timed out");
  assert.equal(stateOf("scheduled").word, "Queued");
});

test("a step that a limit holds is held, and one that sleeps sleeps", () => {
  assert.equal(stateOfStep(step("scheduled", { held: { reason: "breaker" } })).word, "Held");
  assert.equal(stateOfStep(step("suspended", { kind: "sleep" })).word, "Sleeping");
  assert.equal(stateOfStep(step("suspended", { kind: "wait" })).word, "Waiting");
  assert.equal(stateOfStep(undefined).word, "Not begun");
});

test("a run is in the state of the step that matters", () => {
  assert.equal(stateOfRun(run("waiting", [step("succeeded"), step("suspended"), step("backing_off")])).word, "Retrying");
  assert.equal(stateOfRun(run("running", [step("scheduled"), step("running")])).word, "Running");
  assert.equal(stateOfRun(run("running", [step("scheduled")])).word, "Queued");
  assert.equal(stateOfRun(run("paused", [step("backing_off")])).word, "Paused");
  assert.equal(stateOfRun(run("running", [step("running")], { closing: "cancelled" })).word, "Stopping");
  assert.equal(stateOfRun(run("cancelled", [], { cancelAsked: true })).word, "Cancelled");
});
