// What one does about what needs a person.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Concern } from "./api.ts";
import { actionOf, kept, shownOf, targetOf } from "./attention.ts";

const concern = (cause: string, more: object = {}) => ({ id: cause, cause, level: "bad", name: "check out", says: { text: "" }, ...more }) as Concern;

test("many runs are a list, one is its page", () => {
  assert.equal(targetOf(concern("failed", { runs: 7, of: ["r1"] })), "/runs?q=is%3Afailed+is%3Atimed-out+flow%3A%22check+out%22");
  assert.equal(targetOf(concern("failed", { runs: 1, of: ["r1"] })), "/run/r1");
  assert.equal(targetOf(concern("webhook")), "/webhooks");
  assert.equal(targetOf(concern("flow")), "/start?flow=check%20out");
});

test("the action says how many it is about", () => {
  assert.equal(actionOf(concern("failed", { runs: 7 })), "Retry 7…");
  assert.equal(actionOf(concern("paused", { runs: 1 })), "Resume…");
  assert.equal(actionOf(concern("schedule")), "Look…");
});

test("what is put off stays away until it changes", () => {
  const all = [concern("failed"), concern("paused")], hidden = new Set(["paused", "gone"]);
  assert.deepEqual(shownOf(all, hidden).map((c) => c.id), ["failed"]);
  assert.deepEqual(kept(all, hidden), ["paused"]);
  assert.equal(shownOf([concern("paused", { id: "other" })], hidden).length, 1);
});
