// Attempts as a table has them: those that ended alike are one line.
import type { Attempt } from "./api.ts";

// Fold is one attempt, and the ones just before it that ended alike, the newest first.
export interface Fold { first: Attempt; rest: Attempt[] }

const shown = 2; // of the newest attempts have lines of their own

const alike = (a: Attempt, b: Attempt): boolean =>
  Boolean(a.outcome) && a.outcome === b.outcome && a.why === b.why && a.life === b.life && !a.note && !b.note;

// folded returns attempts from the newest on. The newest ones stay apart; of the others, those that ended alike join.
export function folded(attempts: readonly Attempt[]): Fold[] {
  const out: Fold[] = [];
  attempts.toReversed().forEach((a, i) => {
    const last = out[out.length - 1];
    if (i > shown && last && alike(last.first, a)) last.rest.push(a);
    else out.push({ first: a, rest: [] });
  });
  return out;
}

// outcome says in few words how an attempt stands.
export function outcome(a: Attempt): string {
  if (a.outcome) return a.outcome.replaceAll("_", " ") + (a.failure?.code ? `, code ${a.failure.code}` : "");
  if (a.held) return `held: ${a.held.reason.replaceAll("_", " ")}`;
  return a.startedAt ? "running" : "waits for a worker";
}
