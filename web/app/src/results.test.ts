import assert from "node:assert/strict";
import { test } from "node:test";
import type { Step } from "./api.ts";
import { bytes, mayKeep, testsOf } from "./results.ts";

const step = (more: object) => ({ step: "a", kind: "task", type: "exec", ...more }) as unknown as Step;
const counts = { total: 3, passed: 2, failed: 1, skipped: 0 };

test("sizes are written for people", () => {
  assert.deepEqual([0, 1, 1023, 1024, 4404019, 150 * 2 ** 20, 2 ** 31].map(bytes),
    ["0 B", "1 B", "1023 B", "1.0 KiB", "4.2 MiB", "150 MiB", "2.0 GiB"]);
});

test("results of tests come from the output, the failure or the last attempt that has some", () => {
  assert.equal(testsOf(step({ output: { tests: counts } }))?.failed, 1);
  assert.equal(testsOf(step({ output: null, failure: { details: { tests: { ...counts, failed: 2 } } } }))?.failed, 2);
  const attempts = [{ failure: { details: { tests: counts } } }, { failure: { details: { tests: { ...counts, failed: 3 } } } }, {}];
  assert.equal(testsOf(step({ attempts }))?.failed, 3);
});

test("what only looks like results is none", () => {
  for (const tests of [null, "none", 3, {}, { total: 1 }, { ...counts, failures: "x" }, { ...counts, failures: [{}] }]) {
    assert.equal(testsOf(step({ output: { tests } })), undefined);
  }
  assert.equal(testsOf(step({ output: "tests" })), undefined);
});

test("files are looked for where there may be some", () => {
  assert.equal(mayKeep(step({ output: { artifacts: [] } })), true);
  assert.equal(mayKeep(step({ output: { artifacts: "x" } })), false);
  assert.equal(mayKeep(step({ failure: { kind: "error" } })), true);
  assert.equal(mayKeep(step({ kind: "wait", type: "", failure: { kind: "timeout" } })), false);
});
