// How a text that finds runs is put together.
import assert from "node:assert/strict";
import { test } from "node:test";
import { between, completed, followed, inView, phasesOf, quoted, runsOf, terms, viewOf, withoutPhases, withPhase } from "./query.ts";

test("terms end at spaces, and not within quotation marks", () => {
  assert.deepEqual(terms(' is:open  error:"503 Ser\\"vice" a '), ["is:open", 'error:"503 Ser\\"vice"', "a"]);
  assert.deepEqual(terms('flow:"not ended'), ['flow:"not ended']);
  assert.deepEqual(terms(""), []);
  for (const value of ["a", "two words", 'a"b', "a\\b", ""]) assert.deepEqual(terms(`flow:${quoted(value)}`).length, 1);
});

test("a view leaves what else was chosen", () => {
  assert.equal(inView("is:open flow:check tenant=acme", "is:failed is:timed-out"), "is:failed is:timed-out flow:check tenant=acme");
  assert.equal(inView("deadline:1h a", ""), "a");
  assert.equal(viewOf("a is:failed b deadline:1h"), "is:failed deadline:1h");
});

test("a phase is chosen, and left again", () => {
  assert.equal(withPhase("is:retrying is:open a", "timed_out"), "is:timed-out is:retrying a");
  assert.equal(withPhase("is:failed a", "failed"), "a");
  assert.deepEqual(phasesOf("is:top is:failed is:late"), ["is:failed"]);
  assert.equal(withoutPhases("is:failed is:retrying a"), "is:retrying a");
});

test("a time takes the place of another one", () => {
  assert.equal(between("newer:1h a older:5m", "2026-01-01", "2026-01-02"), "a newer:2026-01-01 older:2026-01-02");
  assert.equal(between("newer:1h a"), "a");
});

test("a suggestion ends the last term", () => {
  assert.equal(completed("is:open fl", "flow:"), "is:open flow:");
  assert.equal(completed("is:open ", "flow:check"), "is:open flow:check ");
  assert.equal(completed("", "is:open"), "is:open ");
});

test("a stream knows what it can choose", () => {
  assert.equal(followed('is:open flow:"a b" tenant="x y" newer:1h'), true);
  for (const q of ["word", "is:late", "error:x", "input:a=1", "older:1h", '"a=b"']) assert.equal(followed(q), false, q);
});

test("an address has the text", () => assert.equal(runsOf("a b"), "/runs?q=a+b"));
