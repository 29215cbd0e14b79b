// What the page makes of sentences of the server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { away, reads, target } from "./said.ts";
import { parse } from "./time.ts";

const at = "2026-01-02T15:04:05Z", ms = parse(at);

test("instants count to now", () => {
  assert.equal(reads("in", ms, ms - 70_000), "in 1m10s");
  assert.equal(reads("in", ms, ms + 70_000), "in 0s"); // it is due
  assert.equal(reads("for", ms, ms + 5000), "for 5s");
  assert.equal(reads("ago", ms, ms + 3_600_000), "1h ago");
});

test("what a sentence names is a link", () => {
  assert.equal(target({ text: "charge", step: "items[3]" }, "r1"), "/run/r1?step=items%5B3%5D");
  assert.equal(target({ text: "child", run: "r2" }, "r1"), "/run/r2");
  assert.equal(target({ text: "plain" }, "r1"), "");
});

test("a limit whose clock stands does not count down", () => {
  const e = { cause: "limit", ends: "run", text: "run 45m" };
  assert.equal(away({ ...e, left: "30m" }, ms), "30m left, its clock stands");
  assert.equal(away({ ...e, at }, ms - 1000), "in 1s");
  assert.equal(away({ ...e, at }, ms + 1000), "1s ago");
  assert.equal(away({ ...e, cause: "attempts" }, ms), ""); // nobody knows when
});
