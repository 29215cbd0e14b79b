// A schedule's calendar: what fired, what is to come, what was missed and why; and how long its runs have taken.
import { plain } from "./ansi.ts";
import type { RunSummary, Schedule } from "./api.ts";
import { listRuns, nextFirings } from "./api.ts";
import { Link, Problem } from "./parts.tsx";
import { now } from "./state.ts";
import { length, parse } from "./time.ts";
import { useAsked } from "./asked.ts";

const day = 86_400_000;
const weeksBefore = 4, weeksAfter = 2;
const mostOfDay = 6; // more firings of a day are counted

interface Firing { at: number; state: string; text: string; run?: string }
interface Day { date: string; label: string; today: boolean; firings: Firing[] }

// firingOf returns the firing of a run, which stands in its workflow id: nightly@2026-01-05T00:30:00Z.
const firingOf = (r: RunSummary) => Date.parse((r.workflowId ?? "").split("@").pop() ?? "");

export function Calendar({ s }: { s: Schedule }) {
  const from = new Date(now.value - (weeksBefore + 1) * 7 * day).toISOString();
  const [got, error] = useAsked(async () => {
    const query = new URLSearchParams({ label: `pawl.schedule=${s.name}`, createdFrom: from, limit: "500" });
    const [runs, coming] = await Promise.all([listRuns(query), nextFirings(s.name, 200)]);
    return { runs: runs.runs ?? [], coming: s.paused ? [] : coming };
  }, `${s.name} ${s.fired} ${s.missed} ${s.next ?? ""} ${s.paused ? "paused" : ""}`);
  if (!got) return <Problem error={error} />;
  const zone = s.schedule.zone || "UTC";
  const days = daysOf(s, got.runs, got.coming, zone);
  return (
    <div class="calendar">
      <Problem error={error} />
      <table>
        <caption class="dim">Its days in {zone}</caption>
        <thead><tr>{["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].map((d) => <th key={d} scope="col">{d}</th>)}</tr></thead>
        <tbody>{weeks(days).map((week) => <tr key={week[0]?.date}>{week.map((d) => <DayOf key={d.date} d={d} />)}</tr>)}</tbody>
      </table>
      <p class="keys">{["succeeded", "failed", "running", "coming", "missed"].map((k) => <span key={k}><i class={`firing ${k}`} /> {k}</span>)}</p>
      <Durations runs={got.runs} zone={zone} />
    </div>
  );
}

function DayOf({ d }: { d: Day }) {
  const shown = d.firings.slice(0, mostOfDay), more = d.firings.length - shown.length;
  return (
    <td class={d.today ? "today" : ""} title={d.date}>
      <span class="dim num">{d.label}</span>
      <span class="firings">{shown.map((f) => f.run
        ? <Link key={f.text} to={`/run/${f.run}`} class={`firing ${f.state}`} title={f.text}><span class="unseen">{f.text}</span></Link>
        : <i key={f.text} class={`firing ${f.state}`} title={f.text}><span class="unseen">{f.text}</span></i>)}{more > 0 ? <span class="dim">+{more}</span> : null}</span>
    </td>
  );
}

// stateOf says how the run of a firing stands.
function stateOf(r: RunSummary): string {
  if (r.phase === "succeeded") return "succeeded";
  return ["failed", "timed_out", "terminated", "cancelled"].includes(r.phase) ? "failed" : "running";
}

// daysOf returns the days around today, with their firings in their order.
function daysOf(s: Schedule, runs: RunSummary[], coming: string[], zone: string): Day[] {
  const dateOf = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short" });
  const timeOf = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, timeStyle: "short" });
  const at = (t: number) => `${dateOf.format(t)} ${timeOf.format(t)}`;
  const all: Firing[] = [];
  for (const r of runs) {
    const t = firingOf(r);
    if (Number.isFinite(t)) all.push({ at: t, state: stateOf(r), run: r.run, text: `${at(t)} ${r.phase.replaceAll("_", " ")}${r.message ? `: ${plain(r.message)}` : ""}` });
  }
  for (const t of coming.map(parse)) all.push({ at: t, state: "coming", text: `${at(t)} to come` });
  for (const m of s.recentMissed ?? []) {
    const first = parse(m.from), last = parse(m.to);
    const why = `${m.count} missed: ${reasons[m.reason] ?? m.reason}${m.note ? `, ${plain(m.note)}` : ""}`;
    // A row of missed firings says when the first and the last one was.
    for (const t of new Set([first, ...between(first, last, m.count), last])) all.push({ at: t, state: "missed", text: `${at(t)} ${why}` });
  }
  const byDate = new Map<string, Firing[]>();
  for (const f of all.sort((a, b) => a.at - b.at)) byDate.set(dateOf.format(f.at), [...(byDate.get(dateOf.format(f.at)) ?? []), f]);
  const today = dateOf.format(now.value), noon = Date.parse(`${today}T12:00:00Z`);
  const monday = noon - ((new Date(noon).getUTCDay() + 6) % 7) * day;
  return Array.from({ length: (weeksBefore + weeksAfter + 1) * 7 }, (_, i) => {
    const date = new Date(monday + (i - weeksBefore * 7) * day).toISOString().slice(0, 10);
    return { date, label: date.endsWith("-01") || i === 0 ? date.slice(5) : date.slice(8), today: date === today, firings: byDate.get(date) ?? [] };
  });
}

const reasons: Record<string, string> = {
  late: "nobody was there", paused: "the schedule was paused", overlap: "a run before had not ended", skipped: "it was taken out",
  notAfter: "its latest time of day had passed", refused: "its run could not be started",
};

// between returns a time on each day between the first and the last of some firings.
function between(first: number, last: number, count: number): number[] {
  const out: number[] = [];
  for (let t = first + day; count > 2 && t < last - day / 2; t += day) out.push(t);
  return out;
}

function weeks(days: Day[]): Day[][] {
  const out: Day[][] = [];
  for (let i = 0; i < days.length; i += 7) out.push(days.slice(i, i + 7));
  return out;
}

const mostBars = 60;

// Durations draws how long the last runs have taken, the newest at the right.
function Durations({ runs, zone }: { runs: RunSummary[]; zone: string }) {
  const ended = runs.filter((r) => r.endedAt).slice(0, mostBars).reverse();
  if (ended.length < 2) return null;
  const took = ended.map((r) => parse(r.endedAt) - parse(r.createdAt));
  const longest = Math.max(...took, 1), middle = [...took].sort((a, b) => a - b)[Math.floor(took.length / 2)] ?? 0;
  const when = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "short" });
  return (
    <figure class="durations">
      <figcaption class="dim">Of the last {ended.length} runs half took at most {length(middle)}, the longest took {length(longest)}</figcaption>
      <div>{ended.map((r, i) => {
        const text = `${when.format(parse(r.createdAt))} ${r.phase.replaceAll("_", " ")} after ${length(took[i] ?? 0)}`;
        return <Link key={r.run} to={`/run/${r.run}`} class={`firing ${stateOf(r)}`} title={text} style={{ height: `${Math.max((took[i] ?? 0) / longest * 100, 3)}%` }}><span class="unseen">{text}</span></Link>;
      })}</div>
    </figure>
  );
}
