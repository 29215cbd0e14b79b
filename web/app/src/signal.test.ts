// Values that are shared.
import assert from "node:assert/strict";
import { test } from "node:test";
import { effect, signal } from "./signal.ts";

test("an effect runs again when what it read last changes, and only then", () => {
  const a = signal(1), b = signal(2), which = signal("a");
  const seen: number[] = [];
  const end = effect(() => { seen.push(which.value === "a" ? a.value : b.value); });
  b.value = 3; // it did not read that
  a.value = 1; // nothing changes
  a.value = 4;
  which.value = "b";
  a.value = 5;
  b.value = 6;
  end();
  b.value = 7;
  assert.deepEqual(seen, [1, 4, 3, 6]);
});

test("who peeks is not told", () => {
  const a = signal(1);
  let runs = 0;
  effect(() => { a.peek(); runs++; });
  a.value = 2;
  assert.equal(runs, 1);
});
