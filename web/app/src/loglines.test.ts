// What of a log is shown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { LogText, painted, sought } from "./loglines.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const log = new LogText();
log.add(0, bytes('row 1\n{"pawl": {"heartbeat": 1}}\nrow 2\n'), []);

test("lines for Pawl are hidden until one asks for them", () => {
  assert.deepEqual(sought(log.lines, "", "", false).lines.map((l) => l.n), [1, 3]);
  assert.equal(sought(log.lines, "", "", false).hidden, 1);
  assert.equal(sought(log.lines, "", "", true).lines.length, 3);
});

test("a search leaves the lines that have it, with their numbers", () => {
  assert.deepEqual(sought(log.lines, "ROW 2", "", false).lines.map((l) => [l.n, l.text]), [[3, "row 2"]]);
  assert.equal(sought(log.lines, "nothing", "", false).lines.length, 0);
});

test("a line has the stream and the time of its beginning", () => {
  const l = new LogText(), text = bytes("höt\nerr\nou");
  l.add(0, text, [{ from: 5, stream: "stderr", at: "t1" }, { from: 9, stream: "stdout", at: "t2" }]);
  l.add(text.length, bytes("t\n"), [{ from: 9, stream: "stdout", at: "t2" }]);
  assert.deepEqual(l.lines.map((x) => [x.text, x.stream, x.at]), [["höt", "", ""], ["err", "stderr", "t1"], ["out", "stdout", "t2"]]);
  assert.equal(sought(l.lines, "", "stderr", false).lines.length, 1);
  assert.equal(sought(l.lines, "", "stdout", false).lines.length, 2);
});

test("of a long log the last lines are kept, with their numbers", () => {
  const l = new LogText();
  for (let i = 0; i < 6; i++) l.add(i * 2000, bytes("x\n".repeat(1000)), []);
  assert.equal(l.lines.length, 5000);
  assert.equal(l.lines[0]?.n, 1001);
});

test("a colour goes on in the next line until it ends", () => {
  const line = (n: number, text: string) => ({ n, stream: "", at: "", text });
  const out = painted([line(1, "\u001b[31mred"), line(2, "red too\u001b[0m"), line(3, "plain")]);
  assert.deepEqual(out.map((p) => p.map((x) => x.style)), [["c1"], ["c1"], [""]]);
});
