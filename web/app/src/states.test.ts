// The words for states.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Step } from "./api.ts";
import { stateOf, stateOfStep } from "./states.ts";

test("each status has a word of its own, and so have the phases of the API", () => {
  for (const [status, word] of [["timed_out", "Timed out"], ["held", "Held"], ["sleeping", "Sleeping"], ["backing_off", "Retrying"], ["scheduled", "Queued"]] as const) {
    assert.equal(stateOf(status).word, word);
  }
});

test("a step that has not begun has no status", () => {
  assert.equal(stateOfStep(undefined).word, "Not begun");
  assert.equal(stateOfStep({ status: "held" } as Step).word, "Held");
});
