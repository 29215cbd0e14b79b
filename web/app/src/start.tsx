// Starts a run: a form from what the flow says of its input, or a flow that is written here.
import { useEffect, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import { getFlow, listFlows, startRun } from "./api.ts";
import { Written } from "./editor.tsx";
import { fields, inputOf, type Field } from "./schemaform.ts";
import { Problem } from "./parts.tsx";
import { Needs } from "./signin.tsx";
import { go } from "./state.ts";

interface Known { name: string; file?: string; definition?: string; problem?: string }

export function Start({ search }: { search: string }) {
  const [flows, setFlows] = useState<Known[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const chosen = new URLSearchParams(search).get("flow") ?? "";
  useEffect(() => { listFlows().then((l) => setFlows(l), setError); }, []);
  const known = (flows ?? []).filter((f) => !f.problem);
  const flow = known.find((f) => f.name === chosen) ?? (chosen === "" ? known[0] : undefined);
  const written = chosen === "" ? flows !== null && known.length === 0 : !flow && chosen === "new";
  return (
    <main class="start">
      <h1>Start a run</h1>
      <Problem error={error} />
      <nav class="views" aria-label="Flows">
        {known.map((f) => <a key={f.name} href={`/start?flow=${encodeURIComponent(f.name)}`} class={f === flow ? "current" : ""}
          onClick={(e) => { e.preventDefault(); go(`/start?flow=${encodeURIComponent(f.name)}`); }}><bdi>{plain(f.name)}</bdi></a>)}
        <a href="/start?flow=new" class={written ? "current" : ""} onClick={(e) => { e.preventDefault(); go("/start?flow=new"); }}>New flow</a>
      </nav>
      {flow ? <Named key={flow.name} flow={flow} /> : written ? <Fresh /> : flows ? <p class="empty">There is no flow {plain(chosen)}. Choose one above.</p> : null}
      {(flows ?? []).filter((f) => f.problem).map((f) => <section key={f.file ?? f.name} class="card"><h2>{f.file ?? f.name} <span class="tag urgent">cannot be started</span></h2><pre>{plain(f.problem ?? "")}</pre></section>)}
    </main>
  );
}

function useStart(): [(body: Parameters<typeof startRun>[0]) => void, unknown, boolean] {
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const start = (body: Parameters<typeof startRun>[0]) => {
    setBusy(true);
    setError(null);
    startRun({ ...body, actor: "page" }).then((s) => go(`/run/${s.run}`), (e: unknown) => { setError(e); setBusy(false); });
  };
  return [start, error, busy];
}

function Named({ flow }: { flow: Known }) {
  const [form, setForm] = useState<Field[] | null>(null);
  const [values, setValues] = useState<Record<string, string>>({});
  const [json, setJson] = useState("{}");
  const [asJson, setAsJson] = useState(false);
  const [id, setId] = useState("");
  const [wrong, setWrong] = useState<unknown>(null);
  const [start, error, busy] = useStart();
  useEffect(() => {
    getFlow(flow.name).then((d) => {
      const found = fields(d.input);
      setForm(found);
      setValues(Object.fromEntries(found.map((f) => [f.name, f.preset])));
    }, () => setForm([])); // without it the input is written as JSON
  }, [flow.name, flow.definition]);
  if (!form) return <p class="dim">Loading…</p>;
  const written = asJson || form.length === 0;
  const submit = () => {
    try {
      setWrong(null);
      const input: unknown = written ? JSON.parse(json) : inputOf(form, values);
      start({ workflow: flow.name, input, ...(id ? { workflowId: id } : {}) });
    } catch (e) {
      setWrong(e);
    }
  };
  return (
    <Needs role="operate"><form class="card" onSubmit={(e) => { e.preventDefault(); submit(); }}>
      {written ? <label>Input, JSON <textarea rows={6} spellcheck={false} value={json} onInput={(e) => setJson(e.currentTarget.value)} /></label>
        : form.map((f) => <Entry key={f.name} f={f} value={values[f.name] ?? ""} set={(v) => setValues({ ...values, [f.name]: v })} />)}
      {form.length > 0 ? <button type="button" onClick={() => { if (!asJson) { try { setJson(JSON.stringify(inputOf(form, values), null, 2)); } catch { /* it stays as it was */ } } setAsJson(!asJson); }}>{asJson ? "As a form" : "As JSON"}</button> : null}
      <label>Workflow id <input value={id} placeholder="generated if empty" onInput={(e) => setId(e.currentTarget.value.trim())} /></label>
      <Problem error={wrong ?? error} />
      <div class="actions"><button type="submit" class="main" disabled={busy}>Start</button></div>
    </form></Needs>
  );
}

function Fresh() {
  const [start, error, busy] = useStart();
  return <Written onStart={start} error={error} busy={busy} />;
}

function Entry({ f, value, set }: { f: Field; value: string; set: (v: string) => void }) {
  const label = <span>{plain(f.name)}{f.required ? "" : <span class="dim"> optional</span>}</span>;
  const said = f.says ? <span class="dim">{plain(f.says)}</span> : null;
  if (f.choices.length > 0) {
    return <label>{label}<select value={value} required={f.required} onChange={(e) => set(e.currentTarget.value)}>
      <option value="" />{f.choices.map((c) => <option key={c} value={c}>{c}</option>)}</select>{said}</label>;
  }
  const number = f.type === "integer" || f.type === "number";
  if (f.type === "object" || f.type === "array") {
    return <label>{label}, JSON<textarea rows={3} required={f.required} value={value} onInput={(e) => set(e.currentTarget.value)} />{said}</label>;
  }
  return (
    <label>{label}{number
      ? <input type="number" step={f.type === "number" ? "any" : "1"} min={f.min} max={f.max} required={f.required} value={value} onInput={(e) => set(e.currentTarget.value)} />
      : <input type="text" minLength={f.minLength} maxLength={f.maxLength} required={f.required} value={value} onInput={(e) => set(e.currentTarget.value)} />}{said}</label>
  );
}
