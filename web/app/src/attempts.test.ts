// How attempts are folded.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attempt } from "./api.ts";
import { folded, outcome } from "./attempts.ts";

const attempt = (n: number, why: string, more: object = {}) => ({ attempt: n, outcome: "failed", why, startedAt: "x", ...more }) as Attempt;

test("equal attempts are one line, the newest are not folded", () => {
  const all = [1, 2, 3, 4, 5, 6, 7, 8].map((n) => attempt(n, "503"));
  assert.deepEqual(folded(all).map((f) => [f.first.attempt, f.rest.length]), [[8, 0], [7, 0], [6, 5]]);
});

test("another error is another line", () => {
  const all = [attempt(1, "503"), attempt(2, "404"), attempt(3, "503"), attempt(4, "503"), attempt(5, "503")];
  assert.deepEqual(folded(all).map((f) => f.first.attempt), [5, 4, 3, 2, 1]);
});

test("attempts of another life stay apart", () => {
  const all = [attempt(1, "503"), attempt(2, "503", { life: 1 }), attempt(3, "503", { life: 1 }), attempt(4, "503", { life: 1 }), attempt(5, "503", { life: 1 })];
  assert.deepEqual(folded(all).map((f) => [f.first.attempt, f.rest.length]), [[5, 0], [4, 0], [3, 1], [1, 0]]);
});

test("how an attempt stands", () => {
  assert.equal(outcome(attempt(1, "", { failure: { kind: "failed", code: 3 } })), "failed, code 3");
  assert.equal(outcome({ attempt: 1, outcome: "timed_out" } as Attempt), "timed out");
  assert.equal(outcome({ attempt: 1, startedAt: "x" } as Attempt), "running");
  assert.equal(outcome({ attempt: 1 } as Attempt), "waits for a worker");
});
