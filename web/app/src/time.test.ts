// Lengths and instants read as those of the server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { instant, length, readLength } from "./time.ts";

test("three digits of a length", () => {
  const s = 1000, m = 60 * s, h = 60 * m;
  const lengths: [number, string][] = [[0, "0s"], [320, "320ms"], [4250, "4.2s"], [4000, "4s"], [42 * s, "42s"], [3 * m + 10 * s, "3m10s"], [3 * m + 4 * s, "3m04s"],
    [2 * h + 5 * m, "2h05m"], [5 * m, "5m"], [167 * h, "6d23h"], [-90 * s, "-1m30s"]];
  for (const [ms, text] of lengths) assert.equal(length(ms), text);
  assert.equal(readLength("1h30m"), 90 * m);
  assert.ok(Number.isNaN(readLength("soon")));
});

test("instants of today have no date", () => {
  const at = Date.UTC(2026, 0, 2, 15, 4, 5, 67);
  assert.equal(instant(at, true, false, at), "15:04:05");
  assert.equal(instant(at, true, true, at), "15:04:05.067");
  assert.equal(instant(at, true, false, at + 86_400_000), "2026-01-02 15:04:05");
});
