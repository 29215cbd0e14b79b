// One run: what it is doing, which deadline binds it, why it stopped, what happens next, and what one can do.
import { useEffect, useMemo, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Attempt, Run, Step } from "./api.ts";
import { getRun, nextRun, sendEvent } from "./api.ts";
import { Actions } from "./actions.tsx";
import { Gantt } from "./gantt.tsx";
import { Children, History } from "./history.tsx";
import { later } from "./lazy.tsx";
import { Log } from "./log.tsx";
import { Link, Phase, Problem, Time } from "./parts.tsx";
import { Needs } from "./signin.tsx";
import { Ends, Says } from "./says.tsx";
import { now } from "./state.ts";
import { length, parse } from "./time.ts";
import { isClosed, timeline } from "./timeline.ts";
import { Value } from "./tree.tsx";

const Graph = later(() => import("./graph.tsx").then((m) => m.Graph));
const Otherwise = later(() => import("./lab.tsx").then((m) => m.Otherwise));

// useRun follows a run: it asks for it again as soon as something has happened to it.
function useRun(id: string): [Run | null, unknown] {
  const [run, setRun] = useState<Run | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const stop = new AbortController();
    setRun(null);
    setError(null);
    void (async () => {
      let last: Run | null = null;
      while (!stop.signal.aborted) {
        try {
          const r: Run = last ? await nextRun(id, last.events, stop.signal) : await getRun(id);
          if (stop.signal.aborted) return;
          last = r;
          setRun(r);
          setError(null);
          // Once it has ended, only an operator makes something happen to it again.
          await pause(isClosed(r.phase) ? 3000 : 150, stop.signal);
        } catch (e) {
          if (stop.signal.aborted) return;
          setError(e);
          if ([401, 403, 404].includes((e as { status?: number }).status ?? 0)) return;
          await pause(2000, stop.signal);
        }
      }
    })();
    return () => stop.abort();
  }, [id]);
  return [run, error];
}

const pause = (ms: number, signal: AbortSignal) => new Promise<void>((done) => {
  const t = setTimeout(done, ms);
  signal.addEventListener("abort", () => { clearTimeout(t); done(); }, { once: true });
});

export function RunPage({ id, selected, select }: { id: string; selected: string | null; select: (step: string | null) => void }) {
  const [run, error] = useRun(id);
  if (!run) return <main><h1>Run</h1>{error ? <Problem error={error} /> : <p class="dim">Loading…</p>}<p><Link to="/">All runs</Link></p></main>;
  const ended = isClosed(run.phase);
  const current = now.value;
  const step = (run.steps ?? []).find((s) => s.step === selected) ?? null;
  return (
    <main>
      <header class="run">
        <h1><bdi>{run.workflowId || run.workflow}</bdi> <Phase phase={run.phase} /></h1>
        <p class="dim">
          <bdi>{run.workflow}</bdi> · <code>{run.run}</code> · created <Time at={run.createdAt} />
          {run.endedAt ? <> · ended <Time at={run.endedAt} /></> : null} · {ended ? "took" : "open for"} {length((ended ? parse(run.endedAt) : current) - parse(run.createdAt))}
          {run.parent ? <> · <Link to={`/run/${run.parent}`}>parent</Link></> : null}
          {run.previous ? <> · <Link to={`/run/${run.previous}`}>the run before</Link></> : null}
          {run.next ? <> · <Link to={`/run/${run.next}`}>the run after</Link></> : null}
          {run.queue ? <> · queue <bdi>{run.queue.name}</bdi>{run.queue.key ? <> for <bdi>{run.queue.key}</bdi></> : null}</> : null}
          {Object.entries(run.labels ?? {}).map(([k, v]) => <span class="tag" key={k}><bdi>{plain(`${k}=${v}`)}</bdi></span>)}
        </p>
        <Actions run={run} />
      </header>
      <Problem error={error} />
      <section class={`why ${run.phase}`} role="status">
        <p dir="auto"><Says says={run.says} run={run.run} /></p>
        {run.then ? <p class="dim" dir="auto"><Says says={run.then} run={run.run} /></p> : null}
      </section>
      <Ends ends={run.ends} />
      <Views run={run} selected={selected} select={select} />
      {step ? <StepPanel run={run} s={step} close={() => select(null)} /> : <p class="dim">Choose a step to see its attempts.</p>}
      <Children run={run} />
      <section class="values">
        <Value name="Input" value={run.input} />
        <Value name="Output" value={run.output} />
        <Value name="State" value={run.state} />
      </section>
      {(run.operations ?? []).length > 0 ? <Operations run={run} /> : null}
    </main>
  );
}

const views = ["Timeline", "Graph", "History"] as const;

// Views are three ways to look at the steps of a run. The keys j and k choose a step.
function Views({ run, selected, select }: { run: Run; selected: string | null; select: (step: string | null) => void }) {
  const [view, setView] = useState<(typeof views)[number]>("Timeline");
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
  const ended = isClosed(run.phase);
  const until = ended ? parse(run.endedAt) : now.value;
  const line = useMemo(() => timeline(run, until, unfolded), [run, until, unfolded]);
  const toggle = (s: string) => select(s === selected ? null : s);
  const fold = (g: string) => setUnfolded((old) => { const to = new Set(old); if (!to.delete(g)) to.add(g); return to; });
  useEffect(() => {
    const names = line.rows.map((r) => r.step.step);
    const onKey = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
      const i = names.indexOf(selected ?? "");
      if (e.key === "j") select(names[Math.min(i + 1, names.length - 1)] ?? null);
      else if (e.key === "k") select(names[Math.max(i - 1, 0)] ?? null);
      else if (e.key === "o" && selected && line.rows[i]?.fold) fold(selected);
      else if (e.key === "Escape" && !document.querySelector("dialog")) select(null);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [line, selected]);
  return (
    <>
      <div class="views" role="group" aria-label="Ways to look at it">
        {views.map((v) => <button type="button" key={v} aria-pressed={v === view} class={v === view ? "current" : ""} onClick={() => setView(v)}>{v}</button>)}
      </div>
      {view === "Timeline" ? <Gantt line={line} now={now.value} ended={ended} selected={selected} onSelect={toggle} onFold={fold} /> : null}
      {view === "Graph" ? <Graph run={run} selected={selected} onSelect={toggle} /> : null}
      {view === "History" ? <History run={run} /> : null}
    </>
  );
}

function StepPanel({ run, s, close }: { run: Run; s: Step; close: () => void }) {
  return (
    <section class="step" aria-label={`Step ${s.step}`}>
      <h2><bdi>{s.step}{s.itemName ? ` ${s.itemName}` : ""}</bdi> <Phase phase={s.phase} /> <button type="button" class="close" aria-label="Close the step" onClick={close}>×</button></h2>
      <p dir="auto">{isClosed(s.phase) ? plain(s.why || s.phase.replaceAll("_", " ")) : <Says says={s.says} run={run.run} />}</p>
      {s.againAt ? <p class="dim">Put back to work <Time at={s.againAt} ago />: its attempts count from there.</p> : null}
      <Actions run={run} step={s} />
      {s.kind === "wait" && !isClosed(s.phase) ? (s.event ? [s.event] : s.any ?? []).map((event) => <Send key={event} run={run.run} event={event} />) : null}
      {s.child ? <p><Link to={`/run/${s.child}`}>its child run</Link></p> : null}
      <Ends ends={s.ends} />
      {(s.attempts ?? []).length > 0 ? (
        <div class="scroll">
          <table class="attempts">
            <thead><tr><th>#</th><th>Began</th><th>Took</th><th>How it ended</th><th>Worker</th><th>Then</th></tr></thead>
            <tbody>{(s.attempts ?? []).map((a) => <AttemptRow key={a.attempt} run={run.run} s={s} a={a} />)}</tbody>
          </table>
        </div>
      ) : null}
      {s.policy && Object.keys(s.policy).length > 0 ? <Value name="Policy in force" value={s.policy} /> : null}
      <Otherwise run={run} step={s} />
      <Value name="Output" value={s.output} />
    </section>
  );
}

function AttemptRow({ run, s, a }: { run: string; s: Step; a: Attempt }) {
  const [log, setLog] = useState(false);
  const started = parse(a.startedAt), ended = parse(a.endedAt);
  const stopped = parse(a.stoppedAt) - ended;
  return (
    <>
      <tr class={a.outcome && a.outcome !== "succeeded" ? "bad" : ""}>
        <td class="num">{a.attempt}</td>
        <td><Time at={a.startedAt} />{started - parse(a.readyAt) >= 1000 ? <span class="dim"> queued {length(started - parse(a.readyAt))}</span> : null}</td>
        <td class="num">{Number.isFinite(started) ? length((Number.isFinite(ended) ? ended : now.value) - started) : ""}</td>
        <td dir="auto">
          {a.outcome ? a.outcome === "succeeded" ? "succeeded" : plain(`${a.outcome.replaceAll("_", " ")}: ${a.why ?? ""}`) : a.held ? `held: ${a.held.reason}` : Number.isFinite(started) ? "runs" : "waits for a worker"}
          {a.abandoned ? <span class="tag urgent">abandoned</span> : a.killed ? <span class="tag urgent">killed after {length(stopped)}</span> : stopped > 0 ? <span class="dim"> stopped in {length(stopped)}</span> : null}
          {a.failure?.code ? <span class="tag">code {a.failure.code}</span> : null}
          {a.failure?.retryAfter ? <span class="tag">Retry-After {a.failure.retryAfter}</span> : null}
          {a.note ? <span class="dim"> {a.note}</span> : null}
        </td>
        <td><bdi>{a.worker}</bdi></td>
        <td>{a.nextAt ? <>next in {length(parse(a.nextAt) - ended)}</> : null}
          {s.type === "exec" || s.kind === "exec" ? <button type="button" aria-expanded={log} onClick={() => setLog(!log)}>{log ? "Hide log" : "Log"}</button> : null}</td>
      </tr>
      {log ? <tr><td colSpan={6}><Log run={run} step={s.step} attempt={a.attempt} open={!a.endedAt} /></td></tr> : null}
    </>
  );
}

function Send({ run, event }: { run: string; event: string }) {
  const [payload, setPayload] = useState("{}");
  const [error, setError] = useState<unknown>(null);
  const send = async () => {
    try {
      setError(null);
      await sendEvent(run, event, JSON.parse(payload));
    } catch (e) {
      setError(e);
    }
  };
  return (
    <Needs role="operate"><form class="send" onSubmit={(e) => { e.preventDefault(); void send(); }}>
      <label>Send event {event} <input value={payload} onInput={(e) => setPayload(e.currentTarget.value)} aria-label="Payload, JSON" /></label>
      <button type="submit">Send</button>
      <Problem error={error} />
    </form></Needs>
  );
}

function Operations({ run }: { run: Run }) {
  return (
    <section>
      <h2>Operations</h2>
      <ul class="operations">
        {(run.operations ?? []).map((o, i) => (
          <li key={i} dir="auto"><Time at={o.at} /> {o.operation.replaceAll("_", " ")}{o.step ? ` step ${o.step}` : ""} by {o.actor || "somebody"}{o.reason ? `: ${o.reason}` : ""}
            {(o.deadlines ?? []).map((d) => <span class="dim" key={d.limit}> {d.limit} {d.at ? <>until <Time at={d.at} /></> : "taken away"}</span>)}</li>
        ))}
      </ul>
    </section>
  );
}

