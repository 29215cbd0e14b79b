// What a step's output and failure say of files and tests.
import type { Step } from "./api.ts";

export interface FailedTest { suite?: string; name: string; message?: string; file?: string; line?: number }
export interface TestResults { total: number; passed: number; failed: number; skipped: number; failures?: FailedTest[] }

const field = (of: unknown, name: string): unknown =>
  typeof of === "object" && of !== null && name in of ? (of as Record<string, unknown>)[name] : undefined;

// testsOf returns the results of the last attempt that has some. Any step may have an output that is alike.
export function testsOf(s: Step): TestResults | undefined {
  const all = [s.output, s.failure?.details, ...(s.attempts ?? []).toReversed().map((a) => a.failure?.details)];
  return all.map((of) => field(of, "tests")).find(isResults);
}

function isResults(t: unknown): t is TestResults {
  const failures = field(t, "failures");
  return ["total", "passed", "failed", "skipped"].every((name) => typeof field(t, name) === "number") &&
    (failures === undefined || Array.isArray(failures) && failures.every((f) => typeof field(f, "name") === "string"));
}

// mayKeep reports whether attempts of a step may have kept files: its output says that it has, or it failed, and then
// nothing but the list of the run tells.
export function mayKeep(s: Step): boolean {
  if (s.type !== "exec" && s.kind !== "task") return false;
  return Array.isArray(field(s.output, "artifacts")) || Boolean(s.failure);
}

const units = ["B", "KiB", "MiB", "GiB"];

// bytes writes a size for people: 4.2 MiB.
export function bytes(n: number): string {
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}
