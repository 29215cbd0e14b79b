// Everything that is recorded of a run, and the runs that it started.
import { useEffect, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Event, Run, RunSummary } from "./api.ts";
import { followHistory, getHistory, listRuns } from "./api.ts";
import { Link, Phase, Problem } from "./parts.tsx";
import { utc } from "./state.ts";
import { instant, parse } from "./time.ts";
import { runsOf } from "./query.ts";

const step = 500;

export function History({ run }: { run: Run }) {
  const [events, setEvents] = useState<Event[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [shown, setShown] = useState(step);
  useEffect(() => {
    const stop = new AbortController();
    void (async () => {
      const all = await getHistory(run.run);
      let timer: ReturnType<typeof setTimeout> | undefined;
      setEvents([...all]);
      while (!stop.signal.aborted) {
        // It comes at once while much happens, and is shown a few times a second.
        await followHistory(run.run, all[all.length - 1]?.seq ?? 0, (e) => {
          all.push(e);
          timer ??= setTimeout(() => { timer = undefined; if (!stop.signal.aborted) setEvents([...all]); }, 250);
        }, stop.signal).catch((e: unknown) => { if (!stop.signal.aborted) setError(e); });
        await new Promise((done) => setTimeout(done, 2000));
      }
    })().catch((e: unknown) => { if (!stop.signal.aborted) setError(e); });
    return () => stop.abort();
  }, [run.run]);
  if (error && !events) return <Problem error={error} />;
  if (!events) return <p class="dim">Loading…</p>;
  return (
    <div class="scroll history" tabIndex={0} aria-label="History">
      <table>
        <thead><tr><th>#</th><th>Time</th><th>What</th><th>Step</th><th>Detail</th></tr></thead>
        <tbody>
          {events.slice(-shown).reverse().map((e) => (
            <tr key={e.seq}>
              <td class="num">{e.seq}</td><td class="num">{instant(parse(e.time), utc.value, true)}</td><td>{e.type}</td>
              <td><bdi>{plain(e.step ?? "")}</bdi></td>
              <td dir="auto">{plain([e.text, e.why, e.reason].filter((t, i, all) => t && all.indexOf(t) === i).join(" · "))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {events.length > shown ? <button type="button" onClick={() => setShown(shown + step)}>Show {Math.min(step, events.length - shown)} older ones</button> : null}
    </div>
  );
}

// Children are the runs that a run has started, folded behind their counts.
export function Children({ run }: { run: Run }) {
  const [runs, setRuns] = useState<RunSummary[]>([]);
  const [more, setMore] = useState(false);
  const has = (run.steps ?? []).some((s) => s.child);
  useEffect(() => {
    if (!has) { setRuns([]); return; }
    let over = false;
    listRuns(new URLSearchParams({ parent: run.run, limit: "100" })).then((p) => { if (!over) { setRuns(p.runs ?? []); setMore(Boolean(p.next)); } }, () => {});
    return () => { over = true; };
  }, [run.run, run.events, has]);
  if (runs.length === 0) return null;
  const counts = new Map<string, number>();
  for (const r of runs) counts.set(r.phase, (counts.get(r.phase) ?? 0) + 1);
  return (
    <details class="value children" open={runs.length <= 5}>
      <summary>{runs.length}{more ? "+" : ""} child run{runs.length === 1 ? "" : "s"}: {[...counts].map(([p, n]) => `${n} ${p.replaceAll("_", " ")}`).join(", ")}</summary>
      <ul>{runs.map((r) => <li key={r.run}><Link to={`/run/${r.run}`}><bdi>{r.workflowId || r.workflow}</bdi></Link> <Phase phase={r.phase} /> <bdi class="dim">{r.message}</bdi></li>)}</ul>
      {more ? <Link to={runsOf(`parent:${run.run}`)}>All of them</Link> : null}
    </details>
  );
}
