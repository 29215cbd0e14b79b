// How a list keeps its rows in their places.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunSummary } from "./api.ts";
import { placed } from "./runlist.ts";


const row = (run: string, phase: string) => ({ run, phase }) as RunSummary;

test("rows stay where they are, and new ones are counted", () => {
  const kept = placed([row("b", "running"), row("a", "running")], [row("d", "running"), row("c", "running"), row("b", "failed")]);
  assert.deepEqual(kept.rows.map((r) => [r.run, r.phase]), [["b", "failed"], ["a", "running"]]);
  assert.equal(kept.fresh, 2);
});
