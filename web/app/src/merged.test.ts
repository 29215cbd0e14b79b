// How what has changed of a run is added to what one had.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Run, Step } from "./api.ts";
import { merged } from "./merged.ts";

const step = (id: number, phase: string) => ({ id, step: `s${id}`, phase }) as Step;
const run = (steps: Step[], more: object = {}) => ({ run: "r", phase: "running", input: { n: 1 }, plan: [{ name: "s0" }], steps, ...more }) as unknown as Run;

test("steps that have not changed stay the same objects, in their order", () => {
  const last = run([step(0, "succeeded"), step(1, "running")]);
  const now = merged(last, run([step(1, "failed"), step(2, "running")], { partial: true, input: undefined, plan: undefined, events: 9 }));
  assert.deepEqual((now.steps ?? []).map((s) => s.phase), ["succeeded", "failed", "running"]);
  assert.equal(now.steps?.[0], last.steps?.[0]);
  assert.deepEqual([now.input, now.plan?.length, now.events, now.partial], [{ n: 1 }, 1, 9, false]);
});

test("a whole run is taken as it is", () => {
  const whole = run([step(0, "running")]);
  assert.equal(merged(run([step(0, "failed"), step(1, "failed")]), whole), whole);
});
