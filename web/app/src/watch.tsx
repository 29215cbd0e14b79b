// Pages that are asked for again while they are open: what will miss its deadline, and schedules.
import { useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import { useAsked } from "./asked.ts";
import { Backfill } from "./backfill.tsx";
import type { RunSummary, Schedule } from "./api.ts";
import { changeSchedule, listRuns, listSchedules } from "./api.ts";
import { Calendar } from "./calendar.tsx";
import { Week } from "./week.tsx";
import { Chip, Link, Problem, Ticking, Time } from "./parts.tsx";
import { Needs } from "./signin.tsx";
import { now } from "./state.ts";
import { stateOfRun } from "./states.ts";
import { length, parse } from "./time.ts";
import { quoted, runsOf } from "./query.ts";

const spans = ["1h", "24h", "168h"];

export function Deadlines({ search }: { search: string }) {
  const within = new URLSearchParams(search).get("within") ?? "24h";
  const query = (extra: Record<string, string>) => listRuns(new URLSearchParams({ ...extra, limit: "200" }));
  const [got, error] = useAsked(async () => {
    const [soon, miss, retry] = await Promise.all([query({ deadlineWithin: within }), query({ willMiss: "true" }), query({ retrying: "true" })]);
    return { soon: soon.runs ?? [], miss: new Set((miss.runs ?? []).map((r) => r.run)), retry: retry.runs ?? [], more: Boolean(retry.next) };
  }, within);
  const pressure = new Map<string, RunSummary[]>();
  for (const r of got?.retry ?? []) pressure.set(r.workflow, [...(pressure.get(r.workflow) ?? []), r]);
  return (
    <main>
      <h1>Deadlines</h1>
      <nav class="views" aria-label="How far ahead">{spans.map((s) => <Link key={s} to={`/deadlines?within=${s}`} current={s === within}>Next {s === "24h" ? s : length(parseSpan(s))}</Link>)}</nav>
      <Problem error={error} />
      {!got ? <p class="dim">Loading…</p> : got.soon.length === 0
        ? <p class="empty">No open run has a deadline within {length(parseSpan(within))}. A flow gets one from <code>timeout: 1h</code> at its top, a start from <code>--timeout 1h</code>.</p>
        : <ul class="radar">{got.soon.map((r) => <Due key={r.run} r={r} misses={got.miss.has(r.run)} />)}</ul>}
      {got && got.retry.length > 0 ? (
        <section>
          <h2>Retrying now</h2>
          <table><thead><tr><th>Workflow</th><th>Runs</th><th>The next attempt</th></tr></thead><tbody>
            {[...pressure].sort((a, b) => b[1].length - a[1].length).map(([w, runs]) => {
              const wake = runs.map((r) => r.wake ?? "").filter(Boolean).sort()[0];
              return <tr key={w}><td><Link to={runsOf(`is:retrying flow:${quoted(w)}`)}><bdi>{plain(w)}</bdi></Link></td><td class="num">{runs.length}{got.more ? "+" : ""}</td><td><Time at={wake} ago /></td></tr>;
            })}
          </tbody></table>
        </section>
      ) : null}
    </main>
  );
}

const parseSpan = (s: string) => Number(s.slice(0, -1)) * 3_600_000;

function Due({ r, misses }: { r: RunSummary; misses: boolean }) {
  const from = parse(r.createdAt), at = parse(r.deadline), left = at - now.peek();
  const share = at > from ? Math.min(Math.max(left / (at - from), 0), 1) : 0;
  return (
    <li class={misses || share < 0.2 ? "urgent" : ""}>
      <Link to={`/run/${r.run}`}><bdi>{plain(r.workflowId || r.run.slice(0, 18))}</bdi></Link> <Chip state={stateOfRun(r)} />
      <span class="meter" role="meter" aria-label="Time left" aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(share * 100)}><i style={{ width: `${share * 100}%` }} /></span>
      <span class="num"><Ticking key={r.deadline} of={(current) => at >= current ? `${length(at - current)} left` : `over by ${length(current - at)}`} /></span>
      <span>{misses ? <b>misses its deadline{parse(r.expectedEnd) > at ? ` by ${length(parse(r.expectedEnd) - at)}` : ""}</b> : null} <span class="dim"><bdi>{plain(r.workflow)}</bdi>{r.message ? ` · ${plain(r.message)}` : ""}</span></span>
    </li>
  );
}

export function Schedules() {
  const [got, error, again] = useAsked(() => listSchedules(), "");
  const all = got ?? [];
  return (
    <main>
      <h1>Schedules</h1>
      <Problem error={error} />
      {all.length > 0 ? <Week /> : null}
      {!got ? null : all.length === 0 ? <div class="empty"><p>There are no schedules. A flow has one that says <code>cron: "0 6 * * *"</code>, and a Go program makes one:</p><pre>{'w.EnsureSchedule(ctx, eng, "nightly", client.Schedule{Cron: "0 6 * * *"}, input)'}</pre></div>
        : all.map((s) => <ScheduleOf key={s.name} s={s} again={again} alone={all.length === 1} />)}
    </main>
  );
}

function ScheduleOf({ s, again, alone }: { s: Schedule; again: () => void; alone: boolean }) {
  const [open, setOpen] = useState(alone);
  const [error, setError] = useState<unknown>(null);
  const [fills, setFills] = useState(false);
  const does = (what: string) => changeSchedule(s.name, what).then(() => { setError(null); again(); }, setError);
  return (
    <section class="card">
      <h2><bdi>{plain(s.name)}</bdi> {s.paused ? <span class="tag urgent">paused</span> : null}{s.problem ? <span class="tag urgent">stuck</span> : null}</h2>
      <p><code>{s.schedule.cron}</code> {s.schedule.zone ?? ""} starts <bdi>{plain(s.workflow)}</bdi>{s.file ? <span class="dim"> · from {plain(s.file)}</span> : null}</p>
      {s.paused ? <p class="dim">Paused <Time at={s.paused.at} ago />{s.paused.actor ? <> by <bdi>{plain(s.paused.actor)}</bdi></> : null}{s.paused.reason ? <>: {plain(s.paused.reason)}</> : null}</p> : null}
      {s.problem ? <p class="problem">{plain(s.problem)}</p> : null}
      <p>{s.next ? <>Next <Time at={s.next} />, <Time at={s.next} ago /></> : "No next firing"}{s.last ? <> · last <Time at={s.last} /></> : null}{s.lastRun ? <> · <Link to={runsOf(`id:${quoted(s.lastRun)}`)}>the last run</Link></> : null} · {s.fired} started{s.failures > 0 ? <>, the last {s.failures} failed</> : null}</p>
      {(s.coming ?? []).length > 1 ? <p class="dim">Then {(s.coming ?? []).slice(1, 6).map((c) => <span key={c} class="tag num"><Time at={c} /></span>)}</p> : null}
      {(s.open ?? []).length > 0 ? <p class="dim">Open {(s.open ?? []).map((id) => <span key={id} class="tag"><Link to={runsOf(`id:${quoted(id)}`)}>{plain(id)}</Link></span>)}</p> : null}
      {(s.waiting ?? []).length > 0 ? <p class="dim">Waiting for the run before {(s.waiting ?? []).map((w) => <span key={w} class="tag num"><Time at={w} /></span>)}</p> : null}
      {(s.skips ?? []).length > 0 ? <p class="dim">Taken out {(s.skips ?? []).map((w) => <span key={w} class="tag num"><Time at={w} /></span>)}</p> : null}
      {s.missed > 0 ? <p class="problem">{s.missed} missed{(s.recentMissed ?? []).map((m) => <span key={m.from} class="dim"> · {m.count} at <Time at={m.from} />: {m.reason}</span>)}</p> : null}
      <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}><summary>Calendar</summary>{open ? <Calendar s={s} /> : null}</details>
      <Problem error={error} />
      <Needs role="operate"><div class="actions">
        <button type="button" onClick={() => void does("trigger")}>Start a run now</button>
        {s.paused ? <button type="button" onClick={() => void does("resume")}>Resume</button> : <button type="button" onClick={() => void does("pause")}>Pause</button>}
        {s.next ? <button type="button" onClick={() => void does("skip")}>Skip the next one</button> : null}
        {(s.skips ?? []).length > 0 ? <button type="button" onClick={() => void does("unskip")}>Do not skip</button> : null}
        <button type="button" onClick={() => setFills(true)}>Backfill…</button>
        {fills ? <Backfill schedule={s.name} span={[now.peek() - 86_400_000, now.peek()]} onClose={() => { setFills(false); again(); }} /> : null}
      </div></Needs>
    </section>
  );
}
