// Compares two runs: what differs, and both on one axis that begins where they began.
import { useEffect, useMemo, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Comparison, Run } from "./api.ts";
import { compareRuns, getRun } from "./api.ts";
import { Gantt } from "./gantt.tsx";
import { Chip, Link, Problem, Time } from "./parts.tsx";
import { Says } from "./says.tsx";
import { go } from "./state.ts";
import { stateOfRun } from "./states.ts";
import { length, parse } from "./time.ts";
import { isClosed, timeline } from "./timeline.ts";

const none: ReadonlySet<string> = new Set();

export function Compare({ search }: { search: string }) {
  const q = new URLSearchParams(search), b = q.get("run") ?? "", a = q.get("with") ?? "";
  const [got, setGot] = useState<{ diff: Comparison; one: Run; two: Run } | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    let over = false;
    setGot(null);
    setError(null);
    void (async () => {
      const diff = await compareRuns(b, a);
      const [one, two] = await Promise.all([getRun(diff.a), getRun(diff.b)]);
      if (!over) setGot({ diff, one, two });
    })().catch((e: unknown) => { if (!over) setError(e); });
    return () => { over = true; };
  }, [a, b]);
  return (
    <main class="compare">
      <h1>Compare</h1>
      <Problem error={error} />
      {got ? <Both {...got} /> : error ? <p><Link to={`/run/${encodeURIComponent(b)}`}>Back to the run</Link></p> : <p class="dim">Loading…</p>}
    </main>
  );
}

function Both({ diff, one, two }: { diff: Comparison; one: Run; two: Run }) {
  const [selected, setSelected] = useState<string | null>(null);
  const [trueTime, setTrueTime] = useState(false);
  const line = useMemo(() => timeline(two, parse(two.endedAt) || Date.now(), none, { run: one, by: parse(two.createdAt) - parse(one.createdAt) }), [one, two]);
  return (
    <>
      <div class="sides"><Side name="A" run={one} other={two} /><Side name="B" run={two} other={one} /></div>
      <section class="card" aria-label="Both over time">
        <p class="dim meta">Each row: B, and below it, thin, A as if both had begun at once.</p>
        <Gantt line={line} ended={isClosed(two.phase)} selected={selected} trueTime={trueTime} onSelect={setSelected} onFold={() => {}} onTrueTime={setTrueTime} onPast={() => {}} />
      </section>
      <Differences diff={diff} selected={selected} />
    </>
  );
}

function Side({ name, run, other }: { name: string; run: Run; other: Run }) {
  const [to, setTo] = useState("");
  return (
    <section class="card">
      <h2>{name} <Link to={`/run/${run.run}`}><bdi>{plain(run.workflowId || run.run.slice(0, 18))}</bdi></Link> <Chip state={stateOfRun(run)} /></h2>
      <p dir="auto"><Says says={run.says} run={run.run} /></p>
      <p class="dim">began <Time at={run.createdAt} />{run.endedAt ? `, took ${length(parse(run.endedAt) - parse(run.createdAt))}` : ""}{run.definition ? <>, version <code>{run.definition.slice(0, 7)}</code></> : null}</p>
      <form class="send" onSubmit={(e) => { e.preventDefault(); if (to) go(`/compare?${new URLSearchParams({ run: other.run, with: to })}`); }}>
        <label>Another run in its place <input value={to} placeholder="id" onInput={(e) => setTo(e.currentTarget.value.trim())} /></label><button type="submit">Compare</button>
      </form>
    </section>
  );
}

function Differences({ diff, selected }: { diff: Comparison; selected: string | null }) {
  const all = (diff.differences ?? []).filter((d) => !selected || d.step === selected);
  if (all.length === 0) return <p class="empty">{selected ? `${selected} does not differ.` : "They do not differ."}</p>;
  return (
    <section class="card">
      <h2>What differs <span class="dim">{all.length}{selected ? <> · <bdi>{plain(selected)}</bdi></> : null}</span></h2>
      <div class="scroll" tabIndex={0} aria-label="What differs">
        <table class="differences">
          <thead><tr><th>Step</th><th>What</th><th>A</th><th>B</th></tr></thead>
          <tbody>{all.map((d, i) => (
            <tr key={i}>
              <td>{d.step && d.step !== all[i - 1]?.step ? <bdi>{plain(d.step)}</bdi> : d.step || i > 0 ? null : <span class="dim">the run</span>}</td><td>{d.what}</td>
              <td><bdi>{plain(d.a.slice(0, 1000))}</bdi></td><td><bdi>{plain(d.b.slice(0, 1000))}</bdi></td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  );
}
