// How time is laid out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { broken, even, instantAt, marked, median, place, scaled, ticks } from "./axis.ts";

const s = 1000, m = 60 * s, h = 60 * m;
const busy = [{ from: 0, to: 100 }, { from: 10 * s, to: 10 * s + 100 }, { from: 18 * m, to: 18 * m + 100 }];

test("an attempt has room for its number, however long the run takes", () => {
  const axis = broken(busy, [2 * h], 0, 2 * h, 900);
  for (const b of busy) assert.ok(place(axis, b.to) - place(axis, b.from) >= 17, String(b.from));
  assert.ok(place(even(0, 2 * h, 900), 100) < 1);
});

test("the axis fills its width and never goes back", () => {
  const axis = broken(busy, [5 * m, 40 * m], 0, h, 900);
  assert.equal(place(axis, 0), 0);
  assert.equal(Math.round(place(axis, h)), 900);
  let last = -1;
  for (let t = 0; t <= h; t += 7 * s) {
    const x = place(axis, t);
    assert.ok(x > last, String(t));
    last = x;
  }
});

test("a place is the instant that is there", () => {
  const axis = broken(busy, [40 * m], 0, h, 900);
  for (const t of [0, 50, 5 * s, 17 * m, 18 * m + 30, 59 * m]) assert.ok(Math.abs(instantAt(axis, place(axis, t)) - t) < 1, String(t));
});

test("idle time of any length takes no more than its share, and is cut", () => {
  const [short, long] = [broken(busy, [], 0, h, 900), broken(busy, [], 0, 100 * h, 900)];
  assert.equal(Math.round(place(short, 18 * m)), Math.round(place(long, 18 * m)));
  assert.deepEqual(long.pieces.map((p) => p.cut), [false, false, false, true, false, true]);
});

test("what matters later moves nothing before it while it waits", () => {
  // The present is no knot: as it goes on, all stays where it is.
  const axis = broken(busy, [h], 0, h, 900);
  assert.ok(place(axis, 30 * m) < place(axis, 31 * m));
  assert.equal(axis.pieces.length, 6);
});

test("pieces too short to see join", () => {
  const many = Array.from({ length: 10_000 }, (_, i) => ({ from: i * 10, to: i * 10 + 5 }));
  const axis = broken(many, [], 0, 100 * s, 800);
  assert.ok(axis.pieces.length <= 400, String(axis.pieces.length));
  assert.ok(Math.abs(place(axis, 50 * s) - 400) < 4);
});

test("an axis over another width keeps its shares", () => {
  const axis = broken(busy, [], 0, h, 900);
  assert.equal(Math.round(place(scaled(axis, 1800), 18 * m)), Math.round(2 * place(axis, 18 * m)));
});

test("labels keep apart", () => {
  const at = marked(broken(busy, [h], 0, h, 900), 64).map((t) => t.x);
  assert.ok(at.length >= 3);
  at.forEach((x, i) => { if (i > 0) assert.ok(x - (at[i - 1] ?? 0) >= 64); });
  assert.ok(marked(even(0, h, 900), 64).length >= 8);
});

test("the usual length", () => {
  assert.equal(median([{ from: 0, to: 5 }, { from: 0, to: 7 }, { from: 0, to: 900 }]), 7);
  assert.equal(median([]), 1000);
  assert.deepEqual(ticks(0, 10 * s, 5), [0, 2 * s, 4 * s, 6 * s, 8 * s, 10 * s]);
});

test("a run that has just begun has an axis", () => {
  const axis = broken([], [], 5, 5, 300);
  assert.equal(place(axis, 5), 0);
  assert.equal(instantAt(axis, 10), 5);
});
