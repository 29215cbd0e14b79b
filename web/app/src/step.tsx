// The panel of a step, beside the timeline: its attempts, why they failed, what they printed, and the policy in force.
import { useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Attempt, Run, Step } from "./api.ts";
import { countRuns, getItems, sendEvent } from "./api.ts";
import { Actions } from "./actions.tsx";
import { useAsked } from "./asked.ts";
import { Files, Tests } from "./files.tsx";
import { Otherwise } from "./lab.tsx";
import { Log } from "./log.tsx";
import { Chip, Link, Problem, Tabs, Ticking, Time } from "./parts.tsx";
import { PlaceLink } from "./place.tsx";
import { quoted, runsOf } from "./query.ts";
import { Ends, Says } from "./says.tsx";
import { Needs } from "./signin.tsx";
import { folded, outcome, type Fold } from "./attempts.ts";
import { mayKeep, testsOf } from "./results.ts";
import { stateOf, stateOfRun, stateOfStep } from "./states.ts";
import { length, parse } from "./time.ts";
import { isClosed } from "./timeline.ts";
import { toast } from "./toast.tsx";
import { Value } from "./tree.tsx";
import { useRun } from "./userun.ts";

const prints = (s: Step): boolean => s.type === "exec" || s.kind === "exec";

type Tab = "attempts" | "error" | "tests" | "log" | "output" | "files" | "policy" | "items";

function tabsOf(run: Run, s: Step): (readonly [Tab, string])[] {
  const attempts = s.attempts ?? [], all: (readonly [Tab, string])[] = [];
  if (s.kind === "group" && (s.folded || (run.steps ?? []).some((i) => i.group === s.step))) all.push(["items", `Items ${s.items ?? ""}`.trim()]);
  if (attempts.length > 0) all.push(["attempts", `Attempts ${attempts.length}`]);
  if (errorOf(s)) all.push(["error", "Error"]);
  if (testsOf(s)) all.push(["tests", "Tests"]);
  if (prints(s) && attempts.length > 0) all.push(["log", "Log"]);
  all.push(["output", "Output"]);
  if (mayKeep(s)) all.push(["files", "Files"]);
  all.push(["policy", "Policy"]);
  return all;
}

// at is what the address says, onChoose changes it.
interface Props { run: Run; s: Step; at: URLSearchParams; onChoose: (what: Record<string, string | null>) => void; onStep: (step: string) => void }

export function StepPanel({ run, s, at, onChoose, onStep }: Props) {
  const tabs = tabsOf(run, s), tab = at.get("tab") ?? (at.get("line") ? "log" : null);
  const chosen = tabs.find(([t]) => t === tab)?.[0] ?? tabs[0]?.[0] ?? "output";
  return (
    <section class="card step" aria-label={`Step ${s.step}`}>
      <header>
        <h2><bdi>{s.step}{s.itemName ? ` ${s.itemName}` : ""}</bdi></h2> <Chip state={stateOfStep(s)} />
        <Actions run={run} step={s} />
      </header>
      {isClosed(s.phase) && !s.why ? null : <p class="doing" dir="auto">{isClosed(s.phase) ? plain(s.why ?? "") : <Says says={s.says} run={run.run} />}</p>}
      {s.actor ? <p class="dim">The event came from <bdi>{s.actor}</bdi>.</p> : null}
      {s.heartbeat !== undefined && s.heartbeat !== null ? <Value name="Last heartbeat" value={s.heartbeat} /> : null}
      {s.againAt ? <p class="dim">Put back to work <Time at={s.againAt} ago />: its attempts count from there.</p> : null}
      {s.kind === "wait" && !isClosed(s.phase) && !run.asOf ? (s.event ? [s.event] : s.any ?? []).map((event) => <Send key={event} run={run.run} event={event} />) : null}
      {s.child && !run.asOf ? <Child key={s.child} id={s.child} /> : null}
      <Tabs label={`Of step ${s.step}`} all={tabs} chosen={chosen} onChoose={(tab) => onChoose({ tab })} />
      <div class="tab" role="tabpanel" aria-label={chosen}>
        {chosen === "items" ? <Items run={run} s={s} onStep={onStep} /> : null}
        {chosen === "attempts" ? <Attempts s={s} /> : null}
        {chosen === "error" ? <ErrorOf run={run} s={s} /> : null}
        {chosen === "tests" ? <Tests s={s} /> : null}
        {chosen === "files" ? <Files run={run.run} s={s} /> : null}
        {chosen === "log" ? <Logs run={run.run} s={s} at={at} onChoose={onChoose} /> : null}
        {chosen === "output" ? <OutputOf s={s} /> : null}
        {chosen === "policy" ? <PolicyOf run={run} s={s} /> : null}
      </div>
    </section>
  );
}

// Child says what the run does that a step has started.
function Child({ id }: { id: string }) {
  const [run] = useRun(id);
  return <p class="child" dir="auto"><Link to={`/run/${id}`}>Its child run</Link> {run ? <><Chip state={stateOfRun(run)} /> <Says says={run.says} run={id} /></> : null}</p>;
}

// The failure of a step, or of its last attempt while it is tried again.
function errorOf(s: Step): Attempt["failure"] {
  return s.failure ?? (s.attempts ?? []).findLast((a) => a.failure)?.failure;
}

function OutputOf({ s }: { s: Step }) {
  if (s.output !== undefined && s.output !== null) return <Value name="Output" value={s.output} />;
  return <p class="dim">{isClosed(s.phase) ? "It has none." : "None yet."}</p>;
}

function Attempts({ s }: { s: Step }) {
  const [whole, setWhole] = useState<ReadonlySet<number>>(new Set());
  const last = isClosed(s.phase) ? undefined : errorOf(s); // of one that has ended it stands above
  return (
    <>
      <div class="scroll" tabIndex={0} aria-label="Attempts">
        <table class="attempts">
          <thead><tr><th>#</th><th>Began</th><th>Took</th><th>Ended</th><th>Then</th></tr></thead>
          <tbody>{folded(s.attempts ?? []).map((f) => f.rest.length > 0 && !whole.has(f.first.attempt)
            ? <FoldRow key={f.first.attempt} f={f} onOpen={() => setWhole(new Set([...whole, f.first.attempt]))} />
            : [f.first, ...f.rest].map((a) => <AttemptRow key={a.attempt} a={a} />))}</tbody>
        </table>
      </div>
      {last ? <pre class="message">{plain(last.message || last.type || String(last.kind))}</pre> : null}
    </>
  );
}

// FoldRow stands for attempts that ended alike.
function FoldRow({ f, onOpen }: { f: Fold; onOpen: () => void }) {
  const oldest = f.rest[f.rest.length - 1] ?? f.first;
  return (
    <tr class="folded"><td colSpan={5}>
      <button type="button" class="fold" onClick={onOpen}>▸ {oldest.attempt}–{f.first.attempt} ended the same way,</button> <span class="dim"><Time at={oldest.startedAt} /> to <Time at={f.first.startedAt} /></span>
    </td></tr>
  );
}

function AttemptRow({ a }: { a: Attempt }) {
  const started = parse(a.startedAt), ended = parse(a.endedAt), waited = started - parse(a.readyAt);
  const bad = Boolean(a.outcome) && a.outcome !== "succeeded", stopped = parse(a.stoppedAt) - ended;
  return (
    <tr>
      <td class="num">{a.attempt}</td>
      <td><Time at={a.startedAt} precise />{waited >= 1000 ? <span class="dim"> waited {length(waited)}</span> : null}</td>
      <td class="num">{!Number.isFinite(started) ? "" : Number.isFinite(ended) ? length(ended - started) : <Ticking key={a.startedAt} of={(current) => length(current - started)} />}</td>
      <td dir="auto" class={bad ? "bad" : ""} title={a.worker ? `worker ${a.worker}` : undefined}>
        {outcome(a)}
        {a.failure?.retryAfter ? <span class="tag">Retry-After {a.failure.retryAfter}</span> : null}
        {a.abandoned ? <span class="tag urgent">abandoned</span> : a.killed ? <span class="tag urgent">killed after {length(stopped)}</span> : stopped > 0 ? <span class="dim"> stopped in {length(stopped)}</span> : null}
        {a.note ? <span class="dim"> {a.note}</span> : null}
      </td>
      <td class="num">{a.nextAt ? <>after {length(parse(a.nextAt) - ended)}</> : null}</td>
    </tr>
  );
}

function ErrorOf({ run, s }: { run: Run; s: Step }) {
  const f = errorOf(s), bad = (s.attempts ?? []).filter((a) => a.outcome && a.outcome !== "succeeded");
  if (!f) return null;
  const facts: [string, string | number | undefined][] = [["Kind", f.kind], ["Type", f.type], ["Code", f.code || undefined], ["Limit", f.limit]];
  return (
    <>
      <pre class="message">{plain(f.message || f.type || String(f.kind))}</pre>
      <dl class="facts">
        {facts.map(([name, value]) => value ? <><dt>{name}</dt><dd><bdi>{plain(String(value))}</bdi></dd></> : null)}
        {f.origin ? <><dt>Set at</dt><dd><PlaceLink origin={f.origin} definition={run.definition} /></dd></> : null}
        {bad.length > 0 ? <><dt>First, last</dt><dd><Time at={bad[0]?.endedAt} />, <Time at={bad[bad.length - 1]?.endedAt} /></dd></> : null}
        {f.nonRetryable ? <><dt>Retries</dt><dd>none: it says that another attempt is of no use</dd></> : null}
      </dl>
      <Alike run={run} text={f.message ?? ""} />
      <Value name="Details" value={f.details} />
      {f.cause ? <Value name="Cause" value={f.cause} /> : null}
    </>
  );
}

// Alike says how many runs of the flow have the same error.
function Alike({ run, text }: { run: Run; text: string }) {
  const line = text.trim().split("\n").pop()?.trim().slice(0, 120) ?? "";
  const q = `flow:${quoted(run.workflow)} error:${quoted(line)}`;
  const [counts] = useAsked(() => line ? countRuns(new URLSearchParams({ q })) : Promise.resolve([]), q, 30_000);
  const all = (counts ?? []).reduce((n, c) => n + c.runs, 0);
  if (all < 2) return null;
  return <p><Link to={runsOf(q)}>Same error in {all.toLocaleString("en")}{counts?.some((c) => c.more) ? "+" : ""} runs</Link> of <bdi>{plain(run.workflow)}</bdi></p>;
}

const mostLogs = 20; // attempts whose logs are shown together

// Logs are what one attempt of a step has printed, or all of them. Which one, and which line, is in the address.
function Logs({ run, s, at, onChoose }: { run: string; s: Step } & Pick<Props, "at" | "onChoose">) {
  const attempts = s.attempts ?? [], last = attempts[attempts.length - 1]?.attempt ?? 1;
  const asked = at.get("attempt") ?? "", all = asked === "all", line = Number(at.get("line")) || 0;
  const one = attempts.find((t) => String(t.attempt) === asked) ?? attempts[attempts.length - 1];
  if (!one) return null;
  return (
    <>
      {attempts.length > 1 ? (
        <label class="dim">Attempt <select value={all ? "all" : String(one.attempt)} onChange={(e) => { const to = e.currentTarget.value; onChoose({ attempt: to === String(last) ? null : to, line: null }); }}>
          <option value="all">all of them</option>
          {attempts.toReversed().map((t) => <option key={t.attempt} value={String(t.attempt)}>{t.attempt}: {outcome(t)}</option>)}</select></label>
      ) : null}
      {(all ? attempts.slice(-mostLogs) : [one]).map((a) => (
        <section key={a.attempt}>
          {all ? <h3 class="dim">Attempt {a.attempt}: {outcome(a)}</h3> : null}
          <Log run={run} step={s.step} attempt={a.attempt} open={!a.endedAt} line={all ? 0 : line}
            onLine={(n) => onChoose({ tab: "log", attempt: String(a.attempt), line: n ? String(n) : null })} />
        </section>
      ))}
    </>
  );
}

function PolicyOf({ run, s }: { run: Run; s: Step }) {
  const set = s.policy && Object.keys(s.policy).length > 0;
  return (
    <>
      <Ends ends={s.ends} of={s.step} definition={run.definition} />
      {set ? <Value name="Policy in force" value={s.policy} /> : <p class="dim">No policy is set: one attempt, and no limit of its own.</p>}
      <Otherwise run={run} step={s} />
    </>
  );
}

const cells = 400; // items that have a cell

// Items are those of a forEach, the bad ones first. Those of a long list are asked for.
function Items({ run, s, onStep }: { run: Run; s: Step; onStep: (step: string) => void }) {
  const [phase, setPhase] = useState("");
  const [got, error] = useAsked(() => getItems(run.run, {
    of: s.step, order: "worst", limit: cells, ...(phase ? { phase } : {}), ...(run.asOf ? { at: run.asOf.seq } : {}),
  }), `${run.run} ${s.step} ${phase} ${run.asOf?.seq ?? ""}`);
  const own = (run.steps ?? []).filter((i) => i.group === s.step);
  const counts = s.folded?.phases ?? own.reduce<Record<string, number>>((to, i) => ({ ...to, [i.phase]: (to[i.phase] ?? 0) + 1 }), {});
  const shown = got?.items ?? [], all = got?.total ?? 0;
  return (
    <>
      <div class="segments" role="group" aria-label="Which items">
        <button type="button" aria-pressed={phase === ""} onClick={() => setPhase("")}>All</button>
        {Object.entries(counts).map(([p, n]) => <button type="button" key={p} aria-pressed={phase === p} onClick={() => setPhase(p)}>{stateOf(p).word} {n.toLocaleString("en")}</button>)}
      </div>
      <Problem error={error} />
      <div class="cells">{shown.map((i) => {
        const state = stateOfStep(i), name = i.itemName || i.step;
        return <button type="button" key={i.step} class={`cell ${state.tone}`} title={`${name}: ${state.word}`} aria-label={`${name}: ${state.word}`} onClick={() => onStep(i.step)} />;
      })}</div>
      {all > shown.length ? <p class="dim">{(all - shown.length).toLocaleString("en")} more are in the timeline.</p> : null}
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
      toast(`The event ${event} is sent`);
    } catch (e) {
      setError(e);
    }
  };
  return (
    <Needs role="approve"><form class="send" onSubmit={(e) => { e.preventDefault(); void send(); }}>
      <label>Send event {event} <input value={payload} onInput={(e) => setPayload(e.currentTarget.value)} aria-label="Payload, JSON" /></label>
      <button type="submit">Send</button>
      <Problem error={error} />
    </form></Needs>
  );
}
