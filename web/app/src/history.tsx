// Everything that is recorded of a run, and the runs that it started.
import { useEffect, useRef, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Event, Run, RunSummary } from "./api.ts";
import { followHistory, listRuns } from "./api.ts";
import { Chip, Link, Problem } from "./parts.tsx";
import { stateOfRun } from "./states.ts";
import { utc } from "./state.ts";
import { instant, parse } from "./time.ts";
import { isClosed } from "./timeline.ts";
import { runsOf } from "./query.ts";

// step is how many events are shown at first, and with each wish for more.
const step = 500;

// History shows the newest events, and older ones as one asks for them: it loads no more than it shows.
export function History({ run }: { run: Run }) {
  const [events, setEvents] = useState<Event[]>([]);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const known = useRef<Event[]>([]), stop = useRef(new AbortController());
  useEffect(() => {
    const own = stop.current = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    known.current = [];
    void (async () => {
      for (let over = false; !over && !own.signal.aborted;) {
        // It comes at once while much happens, and is shown a few times a second.
        over = await followHistory(run.run, known.current.at(-1)?.seq ?? Math.max(0, run.events - step), (e) => {
          known.current.push(e);
          timer ??= setTimeout(() => { timer = undefined; setEvents([...known.current]); }, 250);
        }, own.signal).catch((e: unknown) => { if (!own.signal.aborted) setError(e); return false; });
        if (!over) await new Promise((done) => setTimeout(done, 2000));
      }
    })();
    return () => { own.abort(); clearTimeout(timer); };
  }, [run.run, isClosed(run.phase)]);
  const older = async () => {
    const first = known.current[0]?.seq ?? 1, found: Event[] = [];
    setBusy(true);
    try {
      await followHistory(run.run, Math.max(0, first - 1 - step), (e) => e.seq >= first || (found.push(e), e.seq === first - 1), stop.current.signal);
      if (known.current[0]?.seq === first) setEvents([...(known.current = [...found, ...known.current])]);
    } catch (e) { setError(e); }
    setBusy(false);
  };
  if (error && events.length === 0) return <Problem error={error} />;
  if (events.length === 0) return <p class="dim">Loading…</p>;
  const before = (events[0]?.seq ?? 1) - 1;
  return (
    <div class="scroll history" tabIndex={0} aria-label="History">
      <table>
        <thead><tr><th>#</th><th>Time</th><th>What</th><th>Step</th><th>Detail</th></tr></thead>
        <tbody>
          {[...events].reverse().map((e) => (
            <tr key={e.seq}>
              <td class="num">{e.seq}</td><td class="num">{instant(parse(e.time), utc.value, true)}</td><td>{e.type}</td>
              <td><bdi>{plain(e.step ?? "")}</bdi></td>
              <td dir="auto">{plain([e.text, e.why, e.reason].filter((t, i, all) => t && all.indexOf(t) === i).join(" · "))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {before > 0 ? <button type="button" disabled={busy} onClick={() => void older()}>Show {Math.min(step, before)} older ones</button> : null}
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
  for (const r of runs) counts.set(r.status, (counts.get(r.status) ?? 0) + 1);
  return (
    <details class="value children" open={runs.length <= 5}>
      <summary>{runs.length}{more ? "+" : ""} child run{runs.length === 1 ? "" : "s"}: {[...counts].map(([p, n]) => `${n} ${p.replaceAll("_", " ")}`).join(", ")}</summary>
      <ul>{runs.map((r) => <li key={r.run}><Link to={`/run/${r.run}`}><bdi>{r.workflowId || r.workflow}</bdi></Link> <Chip state={stateOfRun(r)} /> <bdi class="dim">{r.message}</bdi></li>)}</ul>
      {more ? <Link to={runsOf(`parent:${run.run}`)}>All of them</Link> : null}
    </details>
  );
}
