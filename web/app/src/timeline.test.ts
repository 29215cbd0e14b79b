// How a timeline is laid out.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Run, Step } from "./api.ts";
import { place } from "./axis.ts";
import { axisOf, cuts, density, doneOf, matters, timeline } from "./timeline.ts";

const at = (s: number) => new Date(Date.UTC(2026, 0, 2, 12) + s * 1000).toISOString();
const now = Date.parse(at(60));

const step = (name: string, phase: string, more: object = {}) => ({ step: name, name, phase, kind: "exec", id: 0, attempts: [], ...more }) as Step;

const retried = step("charge", "backing_off", {
  bars: [
    { kind: "running", from: at(0), to: at(1), attempt: 1, bad: true, text: "attempt 1 failed" },
    { kind: "backoff", from: at(1), text: "2m until attempt 2" },
    { kind: "ahead", from: at(121), to: at(122), attempt: 2, text: "attempt 2" },
    { kind: "ahead", from: at(242), to: at(243), attempt: 3, text: "attempt 3" },
  ],
});

const run = (steps: Step[], more: object = {}) =>
  ({ phase: "waiting", createdAt: at(0), steps, plan: [{ name: "charge" }, { name: "ship" }], ...more }) as unknown as Run;

test("what is planned has a row, until the run has ended", () => {
  assert.deepEqual(timeline(run([retried]), now, new Set()).rows.map((r) => [r.name, r.step !== undefined]), [["charge", true], ["ship", false]]);
  assert.equal(timeline(run([retried], { phase: "failed", endedAt: at(60) }), now, new Set()).rows.length, 1);
});

test("far limits are in the picture, the first one marked", () => {
  const ends = [{ cause: "attempts", ends: "step", step: "charge", at: at(243), text: "last attempt (3)" }, { cause: "limit", ends: "run", at: at(7200), text: "run 2h" },
    { cause: "limit", ends: "run", text: "its clock stands" }, { cause: "limit", ends: "attempt", at: at(70), renewed: true, text: "heartbeat 10s" }];
  const t = timeline(run([retried], { ends }), now, new Set());
  assert.deepEqual(t.lines.map((l) => l.first), [true, false]);
  assert.equal(t.to, Date.parse(at(7200)));
  const axis = axisOf(t, 900, false);
  assert.ok(place(axis, Date.parse(at(243))) < 800);
  assert.ok(place(axisOf(t, 900, true), Date.parse(at(243))) < 40);
});

test("pauses between attempts to come have their length", () => {
  assert.deepEqual(timeline(run([retried]), now, new Set()).rows[0]?.gaps.map((g) => g.text), ["2m"]);
});

test("time that no bar tells the length of is cut with a mark", () => {
  const ends = [{ cause: "limit", ends: "run", at: at(7200), text: "run 2h" }];
  const t = timeline(run([retried], { ends }), now, new Set());
  assert.deepEqual(cuts(t, axisOf(t, 900, false)).map((p) => [p.from, p.to]), []); // its pause is open still
  const later = { ...t, told: t.rows[0]?.gaps ?? [] };
  assert.deepEqual(cuts(later, axisOf(t, 900, false)).map((p) => p.to - p.from), [120_000, 6_957_000]);
  assert.deepEqual(cuts(later, axisOf(t, 900, true)), []);
});

test("what is open and unbounded has room to go on", () => {
  const t = timeline(run([step("work", "running", { bars: [{ kind: "running", from: at(0), attempt: 1, text: "attempt 1 runs" }] })]), now, new Set());
  assert.ok(t.to > now);
  assert.equal(t.busy[0]?.to, t.to);
});

test("items are folded into their group and counted", () => {
  const bars = (i: number, bad: boolean) => [{ kind: "running", from: at(i), to: at(i + 1), attempt: 1, bad, text: "" }];
  const items = [0, 1, 2].map((i) => step(`each[${i}]`, i === 1 ? "failed" : "succeeded", { name: "each", group: "each", bars: bars(i, i === 1) }));
  const r = run([step("each", "suspended", { kind: "group" }), ...items]);
  const folded = timeline(r, now, new Set()).rows[0];
  assert.equal(folded?.fold, "2 succeeded, 1 failed");
  assert.equal(folded?.items.length, 3);
  assert.equal(timeline(r, now, new Set(["each"])).rows.filter((row) => row.depth === 1).length, 3);
  const cells = density(folded?.items ?? [], (t) => (t - Date.parse(at(0))) / 100, 40, 10);
  assert.deepEqual(cells.map((c) => c.bad), [0, 1, 0]);
  assert.equal(matters(r)?.step, "each");
});

test("the step that matters comes first", () => {
  assert.equal(matters(run([step("a", "succeeded"), step("b", "suspended"), step("c", "backing_off")]))?.step, "c");
  assert.equal(matters(run([step("a", "failed"), step("b", "suspended")]))?.step, "a");
  assert.equal(matters(run([step("a", "succeeded"), step("b", "succeeded")]))?.step, "b");
  assert.equal(matters(run([step("a", "succeeded", { failedItems: 2 }), step("b", "succeeded")]))?.step, "a");
  assert.equal(matters(run([])), undefined);
});

test("steps are counted without their items and hooks", () => {
  const steps = [step("charge", "succeeded"), step("each[0]", "running", { name: "each", group: "each" }), step("tell", "running", { hook: true })];
  assert.deepEqual(doneOf(run(steps)), { done: 1, of: 2 });
});
