// Tries a policy out: what it does when every attempt fails, and when a service is down for a while.
import { useEffect, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Act, Attempt, Explained, Run, RunSummary, Simulated, Step } from "./api.ts";
import { explainPolicy, listRuns, simulatePolicy } from "./api.ts";
import { Delays, Outlook, verdict } from "./outlook.tsx";
import { Link, Problem, Time } from "./parts.tsx";
import { quoted } from "./query.ts";
import { go } from "./state.ts";
import { length, parse, readLength } from "./time.ts";
import { toast } from "./toast.tsx";

const samples: [string, string][] = [
  ["native", 'retry: "exponential(6, 1s, max=1m)"\ntimeout: {startToClose: 30s, scheduleToClose: 10m}\n'],
  ["temporal", "startToCloseTimeout: 30s\nscheduleToCloseTimeout: 10m\nretryPolicy:\n  initialInterval: 1s\n  maximumAttempts: 6\n"],
  ["steep", ""], ["stevora", ""], ["zart", ""], ["aether", ""],
];

const most = 200; // attempts that are asked for

// through asks what a policy makes of a service that is down for a while: attempts fail until it is back.
async function through(policy: string, system: string, runLimit: string, outage: number): Promise<Simulated> {
  const request = { policy, system, attempts: most, ...(runLimit ? { runLimit } : {}) };
  const failing: Act[] = [{ end: "error" }];
  const down = await simulatePolicy({ ...request, script: failing });
  const failed = (down.attempts ?? []).filter((a) => !a.never && readLength(a.started) < outage).length;
  const script: Act[] = [...Array.from({ length: failed }, () => ({ end: "error" })), { end: "ok" }];
  return failed < (down.attempts ?? []).filter((a) => !a.never).length ? simulatePolicy({ ...request, script }) : down;
}

interface Answer { explained: Explained; during: Simulated | null; outage: number }

export function Lab({ search }: { search: string }) {
  const q = new URLSearchParams(search);
  const system = q.get("system") ?? "native";
  const text = q.get("policy") ?? samples[0]![1];
  const down = q.get("down") ?? "", runLimit = q.get("run") ?? "";
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [error, setError] = useState<unknown>(null);
  const set = (name: string, value: string) => {
    const to = new URLSearchParams(location.search);
    if (value) to.set(name, value); else to.delete(name);
    go(`/lab?${to}`, true);
  };
  useEffect(() => {
    let over = false;
    const wait = setTimeout(() => void (async () => {
      try {
        if (text.trim() === "") { setAnswer(null); setError(null); return; }
        const outage = down ? readLength(down) : 0;
        if (Number.isNaN(outage)) throw new Error(`"${down}" is no length of time: write 10m or 1h30m`);
        const explained = await explainPolicy({ policy: text, system, ...(runLimit ? { runLimit } : {}) });
        const during = outage > 0 ? await through(text, system, runLimit, outage) : null;
        if (!over) { setAnswer({ explained, during, outage }); setError(null); }
      } catch (e) {
        if (!over) setError(e);
      }
    })(), 250);
    return () => { over = true; clearTimeout(wait); };
  }, [text, system, down, runLimit]);
  const choose = (name: string) => {
    const to = new URLSearchParams(location.search);
    to.set("system", name);
    const sample = samples.find(([n]) => n === name)?.[1];
    if (samples.some(([, t]) => t === text) && sample) to.set("policy", sample);
    go(`/lab?${to}`, true);
  };
  return (
    <main class="lab">
      <h1>Policy lab</h1>
      <p class="dim">Write or paste a policy. The address of this page has it, so a link shows it to others.</p>
      <div class="columns">
        <form onSubmit={(e) => e.preventDefault()}>
          <label>Syntax <select value={system} onChange={(e) => choose(e.currentTarget.value)}>
            {samples.map(([n]) => <option key={n} value={n}>{n === "native" ? "Pawl" : n[0]!.toUpperCase() + n.slice(1)}</option>)}</select></label>
          <label>Policy <textarea rows={10} spellcheck={false} value={text} onInput={(e) => set("policy", e.currentTarget.value)} /></label>
          <label>Run timeout <input value={runLimit} placeholder="no limit" onInput={(e) => set("run", e.currentTarget.value.trim())} /></label>
          <label>Simulate an outage of <input value={down} placeholder="10m" onInput={(e) => set("down", e.currentTarget.value.trim())} /></label>
          <Problem error={error} />
          <div class="actions">
            {down ? null : <button type="button" onClick={() => set("down", "10m")}>Down for 10 minutes</button>}
            <button type="button" onClick={() => void navigator.clipboard.writeText(location.href)}>Copy the link</button>
          </div>
        </form>
        {answer ? <Shown answer={answer} stale={error !== null} /> : <p class="empty">{text.trim() === "" ? <>Try <code>retry: "exponential(5, 1s)"</code></> : ""}</p>}
      </div>
    </main>
  );
}

function Shown({ answer, stale }: { answer: Answer; stale: boolean }) {
  const { explained: e, during, outage } = answer;
  const findings = e.findings ?? [];
  return (
    <section class={stale ? "stale" : ""} aria-live="polite">
      <h2>{(e.assumes ?? "").replace(/^./, (c) => c.toUpperCase())}</h2>
      <p class="verdict">{verdict(e)}</p>
      <Outlook sim={e} />
      {during ? <><h2>If it is down for {length(outage)}</h2><p class="verdict during">{verdict(during)}</p><Outlook sim={during} outage={outage} /></> : null}
      {findings.length > 0 ? <><h2>Warnings</h2><ul class="findings">{findings.map((f) => <li key={f.code + (f.path ?? []).join()}><code>{(f.path ?? []).join(".")}</code> {f.message}</li>)}</ul></> : <p class="dim">No warnings.</p>}
      <Delays sim={e} />
      <details><summary>As Pawl policy</summary><pre>{JSON.stringify(e.policy, null, 2)}</pre></details>
    </section>
  );
}

// act says in the words of a script how an attempt ended.
function act(a: Attempt): Act {
  const run = Math.max(Math.round((parse(a.endedAt) || 0) - (parse(a.startedAt) || 0)), 0);
  const queue = Math.max(Math.round((parse(a.startedAt) || 0) - (parse(a.readyAt) || parse(a.startedAt) || 0)), 0);
  const took = { ...(run > 0 ? { run: `${run}ms` } : {}), ...(queue > 0 ? { queue: `${queue}ms` } : {}) };
  if (a.outcome === "succeeded") return { end: "ok", ...took };
  if (a.outcome === "timed_out") return { end: "hang", ...took };
  if (a.outcome === "lost") return { end: "lost", ...took };
  const f = a.failure;
  return { end: "error", ...took, ...(f?.type ? { type: f.type } : {}), ...(f?.nonRetryable ? { nonRetryable: true } : {}),
    ...(typeof f?.retryAfter === "string" ? { retryAfter: f.retryAfter } : {}) };
}

// asItWent is a step as a simulated one: its attempts at the times that they had.
function asItWent(step: Step): Simulated {
  const from = parse(step.scheduledAt), span = (at: string | undefined) => at ? `${Math.max(Math.round(parse(at) - from), 0)}ms` : undefined;
  const attempts = (step.attempts ?? []).filter((a) => a.startedAt).map((a) => ({
    attempt: a.attempt, at: span(a.readyAt) ?? "0ms", started: span(a.startedAt), ended: span(a.endedAt),
    end: a.outcome === "succeeded" ? "ok" : a.outcome?.replaceAll("_", " "), limit: a.limit,
  }));
  return { attempts, phase: step.phase, at: span(step.endedAt) ?? attempts[attempts.length - 1]?.ended ?? "0ms", policy: {} } as Simulated;
}

// backAt returns when another run of the flow succeeded first after a step had failed last: then, at the latest, what it
// needs was there again.
async function backAt(run: Run, step: Step): Promise<RunSummary | undefined> {
  const failed = parse((step.attempts ?? []).findLast((a) => a.failure)?.endedAt);
  const page = await listRuns(new URLSearchParams({ q: `flow:${quoted(run.workflow)} is:succeeded newer:${run.createdAt}`, limit: "1000" }));
  return (page.runs ?? []).filter((r) => r.run !== run.run && parse(r.endedAt) > failed).sort((a, b) => parse(a.endedAt) - parse(b.endedAt))[0];
}

interface Told { sim: Simulated; back: RunSummary | undefined }

// Otherwise tells what would have become of a step under another policy: had its attempts gone as they went, or had they
// failed until another run of the flow succeeded.
export function Otherwise({ run, step }: { run: Run; step: Step }) {
  const [text, setText] = useState(step.policy && Object.keys(step.policy).length > 0 ? JSON.stringify(step.policy, null, 2) : 'retry: "exponential(6, 1s)"\n');
  const [told, setTold] = useState<Told | null>(null);
  const [error, setError] = useState<unknown>(null);
  const ended = (step.attempts ?? []).filter((a) => a.endedAt);
  if (ended.length === 0) return null;
  const from = parse(step.scheduledAt), origin = (step.policy as { retry?: { origin?: string } } | undefined)?.retry?.origin;
  const ask = async () => {
    try {
      setError(null);
      const limit = (run.deadlines ?? [])[0], left = limit ? parse(limit.at) - from : 0;
      const runLimit = left > 0 ? `${Math.round(left)}ms` : "", back = ended.at(-1)?.failure ? await backAt(run, step) : undefined;
      setTold({ back, sim: back ? await through(text, "native", runLimit, parse(back.endedAt) - from)
        : await simulatePolicy({ policy: text, script: ended.map(act), ...(runLimit ? { runLimit } : {}) }) });
    } catch (e) {
      setError(e);
    }
  };
  const copy = () => void navigator.clipboard.writeText(`# step ${step.step}${origin ? `, ${origin}` : ""}\n${text}`).then(() => toast("Copied"));
  return (
    <details class="otherwise">
      <summary>What if: another policy</summary>
      <form onSubmit={(e) => { e.preventDefault(); void ask(); }}>
        <label>Policy <textarea rows={3} spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>
        <div class="actions"><button type="submit">Simulate</button><button type="button" onClick={copy}>Copy as YAML</button></div>
      </form>
      <Problem error={error} />
      {told ? (
        <>
          <h3 class="meta">As it went</h3><Outlook sim={asItWent(step)} />
          <h3 class="meta">As it would have gone</h3><p class="verdict">{verdict(told.sim)}</p><Outlook sim={told.sim} />
          <p class="dim">{told.back ? <>Attempts fail until <Time at={told.back.endedAt} />, when <Link to={`/run/${told.back.run}`}><bdi>{plain(told.back.workflowId || told.back.run.slice(0, 18))}</bdi></Link> succeeded.</>
            : "Uses the recorded attempts; later ones repeat the last."}</p>
        </>
      ) : null}
    </details>
  );
}
