import assert from "node:assert/strict";
import { test } from "node:test";
import { placeOf, textOf } from "./source.ts";

test("a place has a file and a line", () => {
  assert.deepEqual(placeOf("/a/b: c/order.yaml:12:5"), { file: "/a/b: c/order.yaml", line: 12 });
  assert.deepEqual(placeOf("order.yaml:3"), { file: "order.yaml", line: 3 });
  assert.equal(placeOf("the engine's configuration"), null);
});

test("a file is found in what is stored of a flow", () => {
  const source = JSON.stringify({ flow: { file: "a.yaml", text: "A", files: { "../b.yaml": "B" } }, children: [{ file: "c.yaml", text: "C" }] });
  assert.deepEqual(["a.yaml", "x/b.yaml", "c.yaml", "d.yaml"].map((f) => textOf(source, f)), ["A", "B", "C", undefined]);
  assert.equal(textOf("no JSON", "a.yaml"), undefined);
});
