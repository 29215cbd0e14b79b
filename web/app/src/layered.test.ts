// How a graph is laid out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lay, type Node } from "./layered.ts";

const node = (name: string, ...needs: string[]): Node => ({ name, width: 80, needs });

// checked lays out and checks what holds for each graph: nothing overlaps, nothing is cut off, and what a node needs is
// left of it.
function checked(nodes: Node[]) {
  const laid = lay(nodes), by = new Map(laid.nodes.map((n) => [n.name, n]));
  for (const a of laid.nodes) {
    assert.ok(a.x - a.width / 2 >= 0 && a.x + a.width / 2 <= laid.width && a.y - 15 >= 0 && a.y + 15 <= laid.height, `${a.name} is cut off`);
    for (const b of laid.nodes) {
      if (a !== b) assert.ok(Math.abs(a.x - b.x) >= 80 || Math.abs(a.y - b.y) >= 30, `${a.name} and ${b.name} overlap`);
    }
  }
  for (const n of nodes) for (const need of n.needs) assert.ok(by.get(need)!.x < by.get(n.name)!.x, `${need} is not before ${n.name}`);
  for (const edge of laid.edges) for (const number of edge.match(/-?\d+(\.\d+)?/g) ?? []) assert.ok(Number(number) >= 0, `an edge leaves the picture: ${edge}`);
  return laid;
}

test("a chain is a line", () => {
  const laid = checked([node("a"), node("b", "a"), node("c", "b")]);
  assert.equal(new Set(laid.nodes.map((n) => n.y)).size, 1);
  assert.equal(laid.edges.length, 2);
});

test("branches stand beside each other and join in the middle", () => {
  const laid = checked([node("a"), node("b", "a"), node("c", "a"), node("d", "b", "c")]);
  const y = Object.fromEntries(laid.nodes.map((n) => [n.name, n.y]));
  assert.ok(Math.abs(y["a"]! - (y["b"]! + y["c"]!) / 2) < 1 && Math.abs(y["d"]! - y["a"]!) < 1);
});

test("an edge over layers crosses no node", () => {
  const laid = checked([node("a"), node("b", "a"), node("c", "b"), node("d", "a", "c")]);
  const b = laid.nodes.find((n) => n.name === "b")!;
  const points = laid.edges.flatMap((e) => [...e.matchAll(/(-?[\d.]+),(-?[\d.]+)(?=[A-Z]|$)/g)].map((m) => [Number(m[1]), Number(m[2])]));
  const beside = points.filter(([x = 0, y]) => Math.abs(x - b.x) <= 40 && y !== b.y);
  assert.equal(beside.length, 2); // where the long edge enters the layer of b and leaves it
  for (const [, y = 0] of beside) assert.ok(Math.abs(y - b.y) >= 21, `the edge passes at ${y}, the node is at ${b.y}`);
});

test("many steps, and circles, do no harm", () => {
  const many = Array.from({ length: 200 }, (_, i) => node(`n${i}`, ...[i - 7, i - 3].filter((j) => j >= 0).map((j) => `n${j}`)));
  checked(many);
  assert.equal(lay([node("a", "b"), node("b", "a")]).nodes.length, 2);
});
