// Where one goes from what needs a person, and what of it one has put off.
import type { Concern } from "./api.ts";
import { quoted, runsOf } from "./query.ts";

// targetOf returns the page on which one does something about a concern.
export function targetOf(c: Concern): string {
  switch (c.cause) {
    case "schedule": return "/schedules";
    case "webhook": return "/webhooks";
    case "flow": return `/start?flow=${encodeURIComponent(c.name)}`;
  }
  if (c.runs === 1 && c.of?.[0]) return `/run/${c.of[0]}`;
  const queries: Record<string, string> = {
    failed: "is:failed is:timed-out", will_miss: "is:late", stuck: "is:stuck", waits: "is:waiting", paused: "is:paused",
  };
  return runsOf(`${queries[c.cause] ?? ""} flow:${quoted(c.name)}`.trim());
}

// actionOf returns the words for what one does about it.
export function actionOf(c: Concern): string {
  const words: Record<string, string> = { failed: "Retry", will_miss: "Extend", waits: "Decide", paused: "Resume" };
  const word = words[c.cause] ?? "Look";
  return (c.runs ?? 0) > 1 && words[c.cause] ? `${word} ${c.runs}…` : `${word}…`;
}

// shownOf leaves out what one has put off. It comes again when it has changed, since its id is another one then.
export const shownOf = (all: readonly Concern[], hidden: ReadonlySet<string>): Concern[] => all.filter((c) => !hidden.has(c.id));

// kept returns of the ids that were put off those that still are there.
export const kept = (all: readonly Concern[], hidden: ReadonlySet<string>): string[] => all.map((c) => c.id).filter((id) => hidden.has(id));
