import assert from "node:assert/strict";
import { test } from "node:test";
import { changed } from "./changed.ts";

test("policies differ in parts, and not in where they were set", () => {
  const was = { retry: { maxAttempts: 3, on: ["error", "timeout"], origin: "a.yaml:1" }, timeout: { startToClose: { after: "1m" } } };
  const is = { retry: { maxAttempts: 9, on: ["error", "timeout"] } };
  assert.deepEqual(changed(was, is), [
    { part: "retry.maxAttempts", was: "3", is: "9" }, { part: "timeout.startToClose.after", was: "1m", is: "not set" },
  ]);
  assert.deepEqual(changed(undefined, undefined), []);
});
