// One run: what it is doing, what can end it, why it stopped, what happens next, and what one can do.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Run } from "./api.ts";
import { Actions } from "./actions.tsx";
import { Gantt } from "./gantt.tsx";
import { Children, History } from "./history.tsx";
import { later } from "./lazy.tsx";
import { Chip, elsewhere, Link, Problem, Tabs, Ticking, Time } from "./parts.tsx";
import { Replay, useAsOf } from "./replay.tsx";
import { Ends, Says } from "./says.tsx";
import { go, now, place } from "./state.ts";
import { stateOfRun } from "./states.ts";
import { StepPanel } from "./step.tsx";
import { length, parse } from "./time.ts";
import { doneOf, isClosed, matters, timeline } from "./timeline.ts";
import { Value } from "./tree.tsx";
import { useRun } from "./userun.ts";
import { quoted, runsOf } from "./query.ts";

const Graph = later(() => import("./graph.tsx").then((m) => m.Graph));

// What of a run is shown is in the address.
function choose(at: URL, name: string, value: string | null): void {
  const q = new URLSearchParams(at.search);
  if (value) q.set(name, value); else q.delete(name);
  go(at.pathname + (q.size > 0 ? `?${q}` : ""), true);
}

export function RunPage({ id, at }: { id: string; at: URL }) {
  const [live, wrong] = useRun(id);
  const event = Number(at.searchParams.get("event")) || 0;
  const [was, lost] = useAsOf(id, event);
  const run = was ?? live, error = wrong;
  const onEvent = (to: number) => choose(at, "event", to > 0 ? String(to) : null);
  const onMove = (by: number) => { // keys may come faster than answers
    const of = live?.events ?? 1, asked = Number(new URL(place.peek(), location.origin).searchParams.get("event")) || of;
    onEvent(Math.min(Math.max(asked + by, 1), of));
  };
  if (!run || !live) return <main><h1>Run</h1>{error ? <Problem error={error} /> : <p class="dim">Loading…</p>}<p><Link to="/runs">All runs</Link></p></main>;
  const wanted = at.searchParams.get("step");
  const step = (run.steps ?? []).find((s) => s.step === wanted) ?? matters(run);
  return (
    <main class="run-page">
      <Head run={run} />
      <Problem error={error} />
      <section class="card why" aria-live="polite">
        <p class="says" dir="auto"><Says says={run.says} run={run.run} /></p>
        {run.then ? <p class="then dim" dir="auto"><Says says={run.then} run={run.run} /></p> : null}
      </section>
      <div class="card beside-why"><Ends ends={run.ends} definition={run.definition} />{(run.ends ?? []).length === 0 ? <Bounded run={run} /> : null}</div>
      <Views run={run} came={was ? live : null} at={at} selected={step?.step ?? null} onMove={onMove}>
        <Replay run={run} events={live.events} asked={event} onEvent={onEvent} onMove={onMove} error={lost} />
      </Views>
      {step ? <StepPanel key={step.step} run={run} s={step} tab={at.searchParams.get("tab")} onTab={(t) => choose(at, "tab", t)}
        onStep={(s) => choose(at, "step", s)} /> : <section class="card step"><p class="dim">No step has begun.</p></section>}
      <div class="below">
        <Value name="Input" value={run.input} />
        <Value name="Output" value={run.output} />
        <Value name="State" value={run.state} />
        <Children run={run} />
        {(run.operations ?? []).length > 0 ? <Operations run={run} /> : null}
      </div>
    </main>
  );
}

// Bounded says what bounds a run that nothing can end now.
const Bounded = ({ run }: { run: Run }) => (
  <section class="ends" aria-label="What can end it">
    <h2 class="dim">What can end it</h2>
    <p>{isClosed(run.phase) ? <>Nothing any more: it has ended <Time at={run.endedAt} ago />.</> : run.clockStoppedAt
      ? <>Nothing while its clock stands, since <Time at={run.clockStoppedAt} />.</> : "No limit is set. It goes on until it ends by itself, or somebody ends it."}</p>
  </section>
);

function Head({ run }: { run: Run }) {
  const ended = isClosed(run.phase), { done, of } = doneOf(run), began = parse(run.createdAt);
  return (
    <header class="run">
      <div>
        <nav class="crumbs dim" aria-label="Where this is"><Link to="/runs">Runs</Link> › <Link to={runsOf(`flow:${quoted(run.workflow)}`)}><bdi>{run.workflow}</bdi></Link> ›</nav>
        <div class="title">
          <h1><bdi>{run.workflowId || run.workflow}</bdi></h1>
          <Chip state={stateOfRun(run)} />
          {run.definition ? <span class="tag" title={`The version of its definition: ${run.definition}`}><bdi>{run.workflow}</bdi> · {run.definition.slice(0, 7)}</span> : null}
          {Object.entries(run.labels ?? {}).map(([k, v]) => <span class="tag" key={k}><bdi>{plain(`${k}=${v}`)}</bdi></span>)}
        </div>
        <p class="dim facts">
          <span>started <Time at={run.createdAt} />{ended ? <>, ended <Time at={run.endedAt} /></> : <>, <Ticking key={run.createdAt} of={(current) => `${length(current - began)} ago`} /></>}</span>
          {of > 0 ? <span>{done} of {of} steps done</span> : null}
          {run.queue ? <span>queue <Link to="/queues"><bdi>{run.queue.name}</bdi></Link>{run.queue.key ? <> for <bdi>{run.queue.key}</bdi></> : null}</span> : null}
          {run.parent ? <Link to={`/run/${run.parent}`}>parent</Link> : null}
          {run.previous ? <Link to={`/run/${run.previous}`}>previous run</Link> : null}
          {run.next ? <Link to={`/run/${run.next}`}>next run</Link> : null}
          <Link to={`/compare?run=${run.run}`} title="with the run of this workflow before it">compare</Link>
          <code>{run.run}</code>
        </p>
      </div>
      <Actions run={run} matters={matters(run)} />
    </header>
  );
}

const views = [["timeline", "Timeline"], ["graph", "Graph"], ["history", "Events"]] as const;

// Views are three ways to look at the steps of a run. The keys j and k choose a step.
function Views({ run, came, at, selected, onMove, children }: {
  run: Run; came: Run | null; at: URL; selected: string | null; onMove: (by: number) => void; children: ComponentChildren;
}) {
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
  const [trueTime, setTrueTime] = useState(false);
  const [stamp, setStamp] = useState(0);
  const view = views.find(([v]) => v === at.searchParams.get("view"))?.[0] ?? "timeline";
  const ended = isClosed(run.phase);
  const line = useMemo(() => {
    const at = run.asOf ? parse(run.asOf.time) : now.peek();
    return timeline(run, at, unfolded, came && { run: came, by: 0, after: at });
  }, [run, came, stamp, unfolded]);
  const select = (step: string | null) => choose(at, "step", step);
  const fold = (g: string) => setUnfolded((old) => { const to = new Set(old); if (!to.delete(g)) to.add(g); return to; });
  useEffect(() => {
    const rows = line.rows.filter((r) => r.step);
    const onKey = (e: KeyboardEvent) => {
      if (elsewhere(e)) return;
      const i = rows.findIndex((r) => r.key === selected);
      const failed = [...rows.slice(i + 1), ...rows.slice(0, i + 1)].find((r) => r.step?.failure);
      const inGrid = e.target instanceof HTMLElement && e.target.getAttribute("role") === "treegrid";
      if (e.key === "j" || inGrid && e.key === "ArrowDown") select(rows[Math.min(i + 1, rows.length - 1)]?.key ?? null);
      else if (e.key === "k" || inGrid && e.key === "ArrowUp") select(rows[Math.max(i - 1, 0)]?.key ?? null);
      else if (e.key === "e" && failed) select(failed.key);
      else if (e.key === "r") document.querySelector<HTMLElement>("header.run button.main")?.focus();
      else if (e.key === "b") setTrueTime((on) => !on);
      else if (e.key === "o" && selected && rows[i]?.fold) fold(selected);
      else if (e.key === "[") onMove(-1);
      else if (e.key === "]" && run.asOf) onMove(1);
      else if (e.key === "Escape") select(null);
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [line, selected, at.href]);
  return (
    <section class="card views-card" aria-label="Steps">
      <div class="row-between"><Tabs label="Ways to look at it" all={views.map(([v, words]) => [v, v === "history" ? `${words} ${run.events}` : words] as const)} chosen={view}
        onChoose={(v) => choose(at, "view", v === "timeline" ? null : v)} />{run.asOf ? null : children}</div>
      {run.asOf ? children : null}
      {view === "timeline" ? <Gantt line={line} ended={ended} selected={selected} trueTime={trueTime} onSelect={select} onFold={fold}
        onTrueTime={setTrueTime} onPast={() => setStamp(now.peek())} /> : null}
      {view === "graph" ? <Graph run={run} selected={selected} onSelect={select} /> : null}
      {view === "history" ? <History run={run} /> : null}
    </section>
  );
}

function Operations({ run }: { run: Run }) {
  return (
    <section class="card">
      <h2>What was done to it</h2>
      <ul class="operations">
        {(run.operations ?? []).map((o, i) => (
          <li key={i} dir="auto"><Time at={o.at} /> <span>{o.operation.replaceAll("_", " ")}{o.step ? ` step ${o.step}` : ""} by {o.actor || "somebody"}{o.reason ? `: ${o.reason}` : ""}
            {(o.deadlines ?? []).map((d) => <span class="dim" key={d.limit}> {d.limit} {d.at ? <>until <Time at={d.at} /></> : "taken away"}</span>)}</span></li>
        ))}
      </ul>
    </section>
  );
}
