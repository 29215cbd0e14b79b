// Compares what the page makes of instants and lengths with what Pawl says of them. cases are simulations of policies,
// lengths are texts with their milliseconds. The answer is what differs.
import { length, parse, readLength } from "./time.ts";
import { timeline } from "./timeline.ts";

const began = Date.UTC(2026, 2, 29, 0, 30); // the clocks change an hour later
const at = (ms) => ms === undefined ? undefined : new Date(began + ms).toISOString();

function ofCase(c) {
  const attempts = (c.attempts ?? []).map((a, i, all) => ({
    attempt: i + 1, readyAt: at(a.at), startedAt: at(a.started), endedAt: at(a.ended),
    outcome: a.end === "ok" ? "succeeded" : a.end, nextAt: at(all[i + 1]?.at),
  }));
  if (attempts.length === 0) return [];
  const open = c.phase === "running" || c.phase === "backing_off";
  const step = { id: 0, step: c.name, kind: "task", phase: c.phase, scheduledAt: at(0), endedAt: open ? undefined : at(c.at), attempts };
  const run = { run: c.name, phase: open ? "running" : "failed", createdAt: at(0), endedAt: step.endedAt, steps: [step], operations: [] };
  const got = timeline(run, began + c.at, new Set()).rows[0].bars.map((b) => [b.kind, b.from - began, b.to - began]);
  const want = [];
  (c.attempts ?? []).forEach((a, i, all) => {
    const until = a.started ?? a.ended ?? c.at, next = all[i + 1]?.at;
    if (until > a.at || a.started === undefined && a.ended === undefined) want.push(["queued", a.at, until]);
    if (a.started !== undefined) want.push(["running", a.started, a.ended ?? c.at]);
    if (next > a.ended) want.push(["backoff", a.ended, next]);
  });
  return JSON.stringify(got) === JSON.stringify(want) ? [] : [c.name + ": " + JSON.stringify(got) + ", not " + JSON.stringify(want)];
}

function ofPause() {
  const op = (operation, ms) => ({ at: at(ms), operation, actor: "ada" });
  const step = { id: 0, step: "a", kind: "sleep", phase: "suspended", scheduledAt: at(10), attempts: [] };
  const run = { run: "r", phase: "paused", createdAt: at(0), steps: [step],
    operations: [op("pause", 0), op("resume", 30), op("pause", 50), op("pause", 60)] };
  const got = timeline(run, began + 90, new Set()).rows[0].bars.map((b) => [b.kind, b.from - began, b.to - began]);
  const want = [["asleep", 10, 90], ["paused", 10, 30], ["paused", 50, 90]];
  return JSON.stringify(got) === JSON.stringify(want) ? [] : ["pauses: " + JSON.stringify(got)];
}

globalThis.differs = (cases, lengths) => {
  const out = [...cases.flatMap(ofCase), ...ofPause()];
  for (const [text, ms] of lengths) {
    if (Math.abs(readLength(text) - ms) > 1e-6) out.push(text + " is read as " + readLength(text));
    const shown = length(ms), off = ms - readLength(shown); // two units: what is smaller is left out
    if (!(Math.abs(off) <= Math.max(1, ms / 10))) out.push(ms + " ms are shown as " + shown);
  }
  if (parse(at(90 * 60000)) !== began + 90 * 60000) out.push("an instant after the change of the clocks is off");
  return out;
};
