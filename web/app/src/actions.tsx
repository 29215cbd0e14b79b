// What a person can do to a run or a step, where they look at it.
import { useEffect, useState } from "preact/hooks";
import type { OperateBody, RestartBody, Run, Step } from "./api.ts";
import { forecast, operateRun, operateStep, restartRun } from "./api.ts";
import { changed, type Changed } from "./changed.ts";
import { Dialog, Menu, Problem } from "./parts.tsx";
import { Needs } from "./signin.tsx";
import { go, now, utc } from "./state.ts";
import { toast } from "./toast.tsx";
import { instant, parse } from "./time.ts";
import { isClosed } from "./timeline.ts";

interface Action {
  path: string; // the last part of its path
  label: string;
  button?: string; // that of its dialog, if it is another one
  back?: string; // the button that leaves everything as it is
  shown?: boolean; // it stands beside the menu
  main?: boolean; // it is what one most likely wants
  danger?: boolean;
  ask?: "reason" | "pause" | "extend" | "policy" | "complete" | "mend";
  step?: string; // it is done to this step
  body?: OperateBody;
  says?: string;
}

function ofClosed(r: Run): Action[] {
  const again: Action = { path: "restart", label: "Run again with the same input" };
  if (r.phase !== "failed" && r.phase !== "timed_out") return [again];
  return [
    { path: "retry", label: "Retry failed steps", ask: "reason", shown: true, main: true, says: "The steps that made the run fail begin again with fresh deadlines." },
    { path: "restart", label: "Retry with changes…", button: "Retry with changes", ask: "mend",
      says: "A new run goes on from the failed steps, with another input or another text of the flow. It is refused where steps that are kept would have been done otherwise." },
    again,
  ];
}

function ofRun(r: Run, matters: Step | undefined): Action[] {
  if (r.asOf) return []; // what was cannot be changed
  if (isClosed(r.phase)) return ofClosed(r);
  const all: Action[] = [];
  if (r.pausedAt) all.push({ path: "resume", label: "Resume", ask: "reason", shown: true, main: true, says: "Open steps get fresh deadlines." });
  else {
    if (matters?.phase === "backing_off") all.push({ path: "now", label: "Run now", step: matters.step, shown: true, main: true });
    all.push({ path: "pause", label: "Pause…", button: "Pause", ask: "pause", shown: true, says: "Running attempts go on; nothing new begins." });
  }
  if ((r.deadlines ?? []).length > 0) all.push({ path: "extend", label: "Extend…", button: "Extend", ask: "extend", shown: true });
  all.push({ path: "cancel", label: "Cancel…", button: "Cancel run", back: "Keep running", danger: true, ask: "reason",
    says: "Running attempts are asked to stop, and killed after their grace. Hooks still run." });
  all.push({ path: "terminate", label: "Terminate…", button: "Terminate run", back: "Keep running", danger: true, ask: "reason",
    says: "The run is closed at once: no hook runs, nothing is waited for." });
  return all;
}

function ofStep(s: Step, closed: boolean): Action[] {
  const from: Action[] = closed && !s.hook && !s.group ? [{ path: "restart", label: "Run again from here…", button: "Run again from", ask: "mend",
    says: "A new run keeps the results of what does not need this step, with the same input or another one. It is refused where a step that is kept would have been done otherwise." }] : [];
  return [...ofOwn(s), ...from];
}

function ofOwn(s: Step): Action[] {
  if (s.phase === "failed" || s.phase === "timed_out" || s.phase === "cancelled") {
    return [{ path: "retry", label: "Retry…", button: "Retry", ask: "reason", says: "It begins again with a fresh budget of attempts and fresh deadlines." }];
  }
  if (isClosed(s.phase)) return [];
  const all: Action[] = [];
  if (s.phase === "backing_off") all.push({ path: "now", label: "Run now" });
  if ((s.deadlines ?? []).length > 0 || s.kind === "wait") all.push({ path: "extend", label: "Extend…", button: "Extend", ask: "extend" });
  if (s.kind !== "sleep" && s.kind !== "group") all.push({ path: "set-policy", label: "Set policy…", button: "Set policy", ask: "policy" });
  all.push({ path: "complete", label: "Complete…", button: "Complete", ask: "complete" });
  all.push({ path: "skip", label: "Skip…", button: "Skip", ask: "reason", says: "For what needs it that counts like a condition that is false." });
  all.push({ path: "fail", label: "Fail…", button: "Fail step", danger: true, ask: "reason",
    body: { failure: { kind: "failed", type: "operator", message: "failed on the page" } } });
  return all;
}

export function Actions({ run, step, matters }: { run: Run; step?: Step; matters?: Step | undefined }) {
  const [asked, setAsked] = useState<Action | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const list = step && !run.asOf ? ofStep(step, isClosed(run.phase)) : ofRun(run, matters);
  const apply = async (a: Action, body: OperateBody & RestartBody) => {
    setBusy(true);
    setError(null);
    try {
      const full = { ...a.body, ...body, actor: body.actor ?? "page" }, of = step?.step ?? a.step;
      if (a.ask === "mend") go(`/run/${(await restartRun(run.run, { ...body, ...(step ? { from: step.step } : { failed: true }), actor: "page" })).run}`);
      else if (a.path === "restart") go(`/run/${(await restartRun(run.run)).run}`);
      else if (of) await operateStep(run.run, of, a.path, full);
      else await operateRun(run.run, a.path, full);
      setAsked(null);
      if (a.path !== "restart" && a.ask !== "mend") toast(`${a.button ?? a.label.replace("…", "")}: done`, of ? undefined : undoOf(a));
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  const undoOf = (a: Action) => {
    const back = a.path === "pause" ? "resume" : a.path === "resume" ? "pause" : "";
    return back ? () => void operateRun(run.run, back, { actor: "page", reason: "undone" }).then(() => toast("Undone"), setError) : undefined;
  };
  const button = (a: Action) => (
    <button type="button" key={a.label} class={a.main ? "main" : a.danger ? "danger" : ""} disabled={busy}
      onClick={() => { setError(null); if (a.ask) setAsked(a); else void apply(a, {}); }}>{a.label}</button>
  );
  const more = list.filter((a) => !a.shown);
  return (
    <Needs role="operate"><div class="actions" role="group" aria-label={step ? `Actions on step ${step.step}` : "Actions on the run"}>
      {list.filter((a) => a.shown).map(button)}
      {more.length > 0 ? <Menu label={step ? "Actions" : "More"}>{more.map(button)}</Menu> : null}
      {asked ? null : <Problem error={error} />}
      {asked ? <Ask action={asked} run={run} step={step} busy={busy} error={error}
        onClose={() => { setAsked(null); setError(null); }} onApply={(b) => void apply(asked, b)} /> : null}
    </div></Needs>
  );
}

function Ask(props: {
  action: Action; run: Run; step: Step | undefined; busy: boolean; error: unknown;
  onClose: () => void; onApply: (b: OperateBody & RestartBody) => void;
}) {
  const { action: a, run, step } = props;
  const [reason, setReason] = useState("");
  const [by, setBy] = useState("10m");
  const [limit, setLimit] = useState((step?.deadlines ?? run.deadlines ?? [])[0]?.limit ?? "");
  const [policy, setPolicy] = useState(step?.policy && Object.keys(step.policy).length > 0 ? JSON.stringify(step.policy, null, 2) : "retry: exponential(5, 1s)\n");
  const [output, setOutput] = useState("null");
  const before = JSON.stringify(run.input ?? null, null, 2);
  const [input, setInput] = useState(before);
  const [flow, setFlow] = useState("");
  const [stopClock, setStopClock] = useState(false);
  const [wrong, setWrong] = useState<unknown>(null);
  const body = (): OperateBody & RestartBody => {
    const b: OperateBody & RestartBody = reason ? { reason } : {};
    if (a.ask === "pause" && stopClock) b.stopClock = true;
    if (a.ask === "extend") Object.assign(b, { by, ...(limit ? { limit } : {}) });
    if (a.ask === "policy") b.policy = readPolicy(policy);
    if (a.ask === "complete") b.output = JSON.parse(output) as unknown;
    if (a.ask === "mend" && input !== before) b.input = JSON.parse(input) as unknown;
    if (a.ask === "mend" && flow.trim() !== "") b.flow = flow;
    return b;
  };
  const apply = () => {
    try {
      setWrong(null);
      props.onApply(body());
    } catch (e) {
      setWrong(e);
    }
  };
  const limits = [...new Set((step?.deadlines ?? run.deadlines ?? []).map((d) => d.limit))];
  return (
    <Dialog title={`${a.button ?? a.label} ${step ? step.step : run.workflowId || run.run.slice(0, 18)}`} onClose={props.onClose}>
      <form method="dialog" onSubmit={(e) => { e.preventDefault(); apply(); }}>
        {a.says ? <p>{a.says}</p> : null}
        {a.ask === "extend" ? (
          <>
            <label>Extend by <input value={by} onInput={(e) => setBy(e.currentTarget.value)} placeholder="10m, -30s" required /></label>
            {limits.length > 0 ? <label>Limit <select value={limit} onChange={(e) => setLimit(e.currentTarget.value)}>
              {limits.map((l) => <option key={l} value={l}>{l}</option>)}</select></label> : null}
          </>
        ) : null}
        {a.ask === "policy" ? <label>Policy <textarea rows={8} value={policy} onInput={(e) => setPolicy(e.currentTarget.value)} /></label> : null}
        {a.ask === "complete" ? <label>Its output, JSON <textarea rows={4} value={output} onInput={(e) => setOutput(e.currentTarget.value)} /></label> : null}
        {a.ask === "mend" ? (
          <>
            <label>Input, JSON <textarea rows={6} spellcheck={false} value={input} onInput={(e) => setInput(e.currentTarget.value)} /></label>
            <label>Flow <textarea rows={8} spellcheck={false} value={flow} placeholder="as it was, or its mended text" onInput={(e) => setFlow(e.currentTarget.value)} /></label>
          </>
        ) : null}
        {a.ask === "pause" ? <label class="check"><input type="checkbox" checked={stopClock} onChange={(e) => setStopClock(e.currentTarget.checked)} /> stop the run's clock: its own limits stand still meanwhile</label> : null}
        <label>Reason <input value={reason} onInput={(e) => setReason(e.currentTarget.value)} placeholder="kept in the history" /></label>
        {a.ask === "extend" || a.ask === "policy" ? <Preview run={run} step={step} action={a} body={body} key={by + limit + policy} /> : null}
        <Problem error={wrong ?? props.error} />
        <div class="menu">
          <button type="button" onClick={props.onClose}>{a.back ?? "Back"}</button>
          <button type="submit" class={a.danger ? "danger" : "main"} disabled={props.busy}>{a.button ?? a.label}</button>
        </div>
      </form>
    </Dialog>
  );
}

// readPolicy reads "retry: …" and "timeout: …" lines, or JSON.
function readPolicy(text: string): unknown {
  const t = text.trim();
  if (t.startsWith("{")) return JSON.parse(t) as unknown;
  const out: Record<string, string> = {};
  for (const line of t.split("\n").filter((l) => l.trim() !== "")) {
    const m = /^\s*(retry|timeout)\s*:\s*(.+?)\s*$/.exec(line);
    if (!m) throw new Error(`"${line}": write retry: exponential(5, 1s) and timeout: 5m, or JSON`);
    out[m[1] ?? ""] = (m[2] ?? "").replace(/^["']|["']$/g, "");
  }
  return out;
}

// Preview asks the server what would follow from an operation. Nothing happens to the run.
function Preview({ run, step, action, body }: { run: Run; step: Step | undefined; action: Action; body: () => OperateBody }) {
  const [said, setSaid] = useState<string>("…");
  const [parts, setParts] = useState<Changed[]>([]);
  useEffect(() => {
    const wait = setTimeout(() => {
      void (async () => {
        try {
          const operation = { ...body(), operation: action.path.replaceAll("-", "_"), ...(step ? { step: step.step } : {}) };
          const r = await forecast(run.run, { operation });
          const then = r.steps?.find((s) => s.step === step?.step);
          setSaid(step ? tellStep(then) : tellRun(r));
          if (step && action.ask === "policy") setParts(changed(step.policy, then?.policy));
        } catch (e) {
          setSaid(e instanceof Error ? e.message : String(e));
        }
      })();
    }, 300);
    return () => clearTimeout(wait);
  }, []);
  return (
    <div class="preview">
      {parts.map((p) => <p key={p.part} class="change"><code>{p.part}</code> <del>{p.was}</del> → <ins>{p.is}</ins></p>)}
      <p><b>If every attempt fails:</b> {said}</p>
    </div>
  );
}

function tellStep(s: Step | undefined): string {
  if (!s) return "";
  const coming = (s.attempts ?? []).filter((a) => parse(a.startedAt) > now.value);
  const at = coming.slice(0, 4).map((a) => `attempt ${a.attempt} at ${instant(parse(a.startedAt), utc.value)}`).join(", ");
  const more = coming.length > 4 ? ` and ${coming.length - 4} more` : "";
  const deadline = (s.deadlines ?? []).map((d) => `${d.limit} until ${instant(parse(d.at), utc.value)}`).join(", ");
  const end = s.endedAt ? `; it would end ${s.phase.replaceAll("_", " ")} at ${instant(parse(s.endedAt), utc.value)}` : "";
  return `${at || "no further attempt"}${more}${end}${deadline ? `; ${deadline}` : ""}`;
}

const tellRun = (r: Run): string =>
  (r.deadlines ?? []).map((d) => `${d.limit} until ${instant(parse(d.at), utc.value)}`).join(", ") || "it would have no deadline";
