// A week of all schedules: what fired and what became of it, what was missed, and what is to come.
import { useEffect, useRef, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Hour, InWeek } from "./api.ts";
import { getFirings } from "./api.ts";
import { useAsked } from "./asked.ts";
import { Backfill } from "./backfill.tsx";
import { may } from "./caller.ts";
import { Link, Problem } from "./parts.tsx";
import { effect } from "./signal.ts";
import { now, utc } from "./state.ts";
import { instant, parse } from "./time.ts";
import { useRange } from "./zoom.ts";

const day = 86_400_000, before = 3; // days of the past that are shown

// beginOf returns the midnight with which the week begins, in the time that the page shows.
function beginOf(at: number, inUTC: boolean): number {
  const d = new Date(at - before * day);
  return inUTC ? Math.floor((at - before * day) / day) * day : new Date(d.getFullYear(), d.getMonth(), d.getDate()).getTime();
}

const kinds = ["failed", "missed", "running", "succeeded", "coming"] as const;

// toldOf says what became of the firings of an hour.
const toldOf = (h: Hour): string => kinds.filter((k) => h[k]).map((k) => `${h[k]} ${k === "coming" ? "to come" : k}`).join(", ") + (h.why ? ` (${h.why})` : "");

export function Week() {
  const [from, setFrom] = useState(beginOf(now.peek(), utc.value));
  useEffect(() => effect(() => setFrom(beginOf(now.value, utc.value))), []);
  const [got, error] = useAsked(() => getFirings(new Date(from).toISOString()), String(from), 10_000);
  const [drawn, setDrawn] = useState<{ schedule: string; span: [number, number] } | null>(null);
  if (!got) return <Problem error={error} />;
  const days = Array.from({ length: 7 }, (_, i) => from + i * day), today = Math.floor((now.peek() - from) / day);
  const name = (t: number) => new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", ...(utc.value ? { timeZone: "UTC" } : {}) }).format(t);
  return (
    <section class="card">
      <h2>The week</h2>
      <Problem error={error} />
      <div class="scroll" tabIndex={0} aria-label="The week">
        <table class="week">
          <thead><tr><th scope="col">Schedule</th>{days.map((t, i) => <th key={t} scope="col" class={i === today ? "today" : ""}>{name(t)}</th>)}</tr></thead>
          <tbody>{(got.schedules ?? []).map((s) => <RowOf key={s.schedule} s={s} days={days} today={today} onSpan={(span) => setDrawn({ schedule: s.schedule, span })} />)}</tbody>
        </table>
      </div>
      {drawn ? <Backfill {...drawn} onClose={() => setDrawn(null)} /> : null}
      <p class="keys">{kinds.map((k) => <span key={k}><i class={`firing ${k}`} /> {k}</span>)}{may("operate") ? <span class="tl-hint">draw over a schedule's days to make up for what has no run</span> : null}</p>
    </section>
  );
}

// RowOf is the week of one schedule. A span that one draws over it can be made up for.
function RowOf({ s, days, today, onSpan }: { s: InWeek; days: number[]; today: number; onSpan: (span: [number, number]) => void }) {
  const row = useRef<HTMLTableRowElement>(null);
  const drawn = useRange(row, (a, b) => {
    const [head, cell] = [...row.current?.children ?? []].map((c) => (c as HTMLElement).offsetWidth), begin = days[0] ?? 0;
    const at = (x: number) => begin + Math.max(x - (head ?? 0), 0) / (cell || 1) * day;
    if (b - a > 4 && at(a) < now.peek() && may("operate")) onSpan([at(a), at(b)]);
  });
  return (
    <tr ref={row}>
      <th scope="row">{drawn ? <span class="tl-range" style={{ left: `${drawn[0]}px`, width: `${drawn[1] - drawn[0]}px` }} /> : null}<bdi>{plain(s.schedule)}</bdi>{s.more ? <span class="dim"> not all of it</span> : null}</th>
      {days.map((from, i) => (
        <td key={from} class={i === today ? "today" : ""}><div class="hours">{(s.hours ?? []).filter((h) => parse(h.at) >= from && parse(h.at) < from + day).map((h) => {
          const kind = kinds.find((k) => h[k]) ?? "coming", words = `${instant(parse(h.at), utc.value)}: ${toldOf(h)}`, style = { left: `${(parse(h.at) - from) / day * 100}%` };
          return h.run ? <Link key={h.at} to={`/run/${h.run}`} class={`firing ${kind}`} title={words} style={style}><span class="unseen">{words}</span></Link>
            : <i key={h.at} class={`firing ${kind}`} title={words} style={style}><span class="unseen">{words}</span></i>;
        })}</div></td>
      ))}
    </tr>
  );
}
