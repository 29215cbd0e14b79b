// One run: what it is doing, what can end it, why it stopped, what happens next, and what one can do.
import type { ComponentChildren } from "preact";
import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Run } from "./api.ts";
import { Actions } from "./actions.tsx";
import { Gantt } from "./gantt.tsx";
import { Graph } from "./graph.tsx";
import { Children, History } from "./history.tsx";
import { Inlined } from "./inline.tsx";
import { useItems } from "./items.ts";
import { usePageKeys } from "./keys.ts";
import { Chip, Link, Problem, Tabs, Ticking, Time } from "./parts.tsx";
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

// choose changes what of a run is shown, which is in the address. It begins with the address as it is now, since a key
// may come before what the one before it changed is drawn.
function choose(what: Record<string, string | null>): void {
  const at = new URL(place.peek(), location.origin), q = at.searchParams;
  for (const [name, value] of Object.entries(what)) if (value) q.set(name, value); else q.delete(name);
  go(at.pathname + (q.size > 0 ? `?${q}` : ""), true);
}

// chooseStep shows another step: what was chosen of the one before is not in it.
const chooseStep = (step: string | null) => choose({ step, attempt: null, line: null });

export function RunPage({ id, at }: { id: string; at: URL }) {
  const [live, wrong] = useRun(id);
  const event = Number(at.searchParams.get("event")) || 0;
  const [was, lost] = useAsOf(id, event);
  const wanted = at.searchParams.get("step") ?? "";
  const [run, more] = useItems(was ?? live, was ? event : 0, wanted), error = wrong;
  const onEvent = (to: number) => choose({ event: to > 0 ? String(to) : null });
  const onMove = (by: number) => { // keys may come faster than answers
    const of = live?.events ?? 1, asked = Number(new URL(place.peek(), location.origin).searchParams.get("event")) || of;
    onEvent(Math.min(Math.max(asked + by, 1), of));
  };
  if (!run || !live) return <main><h1>Run</h1>{error ? <Problem error={error} /> : <p class="dim">Loading…</p>}<p><Link to="/runs">All runs</Link></p></main>;
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
      <Views run={run} came={was ? live : null} at={at} selected={step?.step ?? null} onMove={onMove} onMore={more}>
        <Replay run={run} events={live.events} asked={event} onEvent={onEvent} onMove={onMove} error={lost} />
      </Views>
      {step ? <StepPanel key={step.step} run={run} s={step} at={at.searchParams} onChoose={choose} onStep={chooseStep} /> : <section class="card step"><p class="dim">No step has begun.</p></section>}
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
          {of > 0 ? <span>{done} of {of} steps {ended && run.phase !== "succeeded" ? "ended" : "done"}</span> : null}
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
function Views({ run, came, at, selected, onMove, onMore, children }: {
  run: Run; came: Run | null; at: URL; selected: string | null; onMove: (by: number) => void; onMore: (group: string, offset: number) => void;
  children: ComponentChildren;
}) {
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
  const [below, setBelow] = useState<ReadonlyMap<string, Run>>(new Map());
  const trueTime = at.searchParams.has("true"), setTrueTime = (on: boolean) => choose({ true: on ? "1" : null });
  const [stamp, setStamp] = useState(0);
  const view = views.find(([v]) => v === at.searchParams.get("view"))?.[0] ?? "timeline";
  const ended = isClosed(run.phase);
  const line = useMemo(() => {
    const at = run.asOf ? parse(run.asOf.time) : now.peek();
    return timeline(run, at, unfolded, came && { run: came, by: 0, after: at }, below);
  }, [run, came, stamp, unfolded, below]);
  const inline = useCallback((row: string, r: Run | null) => setBelow((old) => {
    const to = new Map(old);
    if (r) to.set(row, r); else to.delete(row);
    return to;
  }), []);
  const select = chooseStep;
  const fold = (g: string) => setUnfolded((old) => { const to = new Set(old); if (!to.delete(g)) to.add(g); return to; });
  const chosen = useRef(selected); // a key may come before what the one before it chose is drawn
  chosen.current = selected;
  const step = (to: string | null) => { chosen.current = to; select(to); };
  usePageKeys((e) => {
    const rows = line.rows.filter((r) => r.step && !r.run), i = rows.findIndex((r) => r.key === chosen.current);
    const failed = [...rows.slice(i + 1), ...rows.slice(0, i + 1)].find((r) => r.step?.failure);
    const inGrid = e.target instanceof HTMLElement && e.target.getAttribute("role") === "treegrid";
    if (e.key === "j" || inGrid && e.key === "ArrowDown") step(rows[Math.min(i + 1, rows.length - 1)]?.key ?? null);
    else if (e.key === "k" || inGrid && e.key === "ArrowUp") step(rows[Math.max(i - 1, 0)]?.key ?? null);
    else if (e.key === "e" && failed) step(failed.key);
    else if (e.key === "r") document.querySelector<HTMLElement>("header.run button.main")?.focus();
    else if (e.key === "b") setTrueTime(!new URL(place.peek(), location.origin).searchParams.has("true"));
    else if (e.key === "o" && chosen.current && rows[i]?.fold) fold(chosen.current);
    else if (e.key === "[") onMove(-1);
    else if (e.key === "]" && run.asOf) onMove(1);
    else if (e.key === "Escape") step(null);
    else return false;
    return true;
  });
  return (
    <section class="card views-card" aria-label="Steps">
      <div class="row-between"><Tabs label="Ways to look at it" all={views.map(([v, words]) => [v, v === "history" ? `${words} ${run.events}` : words] as const)} chosen={view}
        onChoose={(v) => choose({ view: v === "timeline" ? null : v })} />{run.asOf ? null : children}</div>
      {run.asOf ? children : null}
      {view === "timeline" ? <Gantt line={line} ended={ended} selected={selected} trueTime={trueTime} onSelect={select} onFold={fold}
        onTrueTime={setTrueTime} onPast={() => setStamp(now.peek())} onMore={onMore} span={at.searchParams.get("span")} onSpan={(span) => choose({ span })} /> : null}
      {run.asOf ? null : <Inlined run={run} unfolded={unfolded} runs={below} onRun={inline} />}
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
          <li key={i} dir="auto"><Time at={o.at} /> <span>{o.operation === "now" ? "run now" : o.operation.replaceAll("_", " ")}{o.step ? ` step ${o.step}` : ""} by {o.actor || "somebody"}{o.reason ? `: ${o.reason}` : ""}
            {(o.deadlines ?? []).map((d) => <span class="dim" key={d.limit}> {d.limit} {d.at ? <>until <Time at={d.at} /></> : "taken away"}</span>)}</span></li>
        ))}
      </ul>
    </section>
  );
}
