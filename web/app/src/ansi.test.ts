// What of a log is shown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ansi, readable } from "./ansi.ts";

const log = 'row 1\n{"pawl": {"heartbeat": 1}}\nrow 2\n';

test("lines for Pawl are hidden until one asks for them", () => {
  assert.deepEqual(readable(log, "", false), { text: "row 1\nrow 2\n", hidden: 1 });
  assert.equal(readable(log, "", true).text, log);
  assert.equal(readable("a\n", "", false).text, "a\n");
});

test("a search leaves the lines that have it", () => {
  assert.equal(readable(log, "ROW 2", false).text, "row 2");
  assert.equal(readable(log, "nothing", false).text, "");
});

test("colours are pieces, and the rest is plain", () => {
  assert.deepEqual(ansi("\u001b[31mred\u001b[0m \u0007"), [{ text: "red", style: "c1" }, { text: " \u2407", style: "" }]);
});
