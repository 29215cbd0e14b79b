// How colours of programs are read.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ansi } from "./ansi.ts";

test("colours are pieces, and the rest is plain", () => {
  assert.deepEqual(ansi("\u001b[31mred\u001b[0m \u0007"), [{ text: "red", style: "c1" }, { text: " \u2407", style: "" }]);
});
