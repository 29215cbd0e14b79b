// Applies an operation to all runs of a query: first it is told which ones, and nothing happens to them.
import { useRef, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { BulkQuery, BulkResult } from "./api.ts";
import { bulk } from "./api.ts";
import { Dialog, Phase, Problem } from "./parts.tsx";

const operations: [string, string][] = [
  ["pause", "Pause"], ["resume", "Resume"], ["retry", "Retry failed steps"], ["cancel", "Cancel, let attempts finish"],
  ["cancel", "Cancel"], ["terminate", "Terminate"],
];

const most = 1000; // runs of one operation

// bulkQuery is the query of the address in the form of a body.
export function bulkQuery(q: URLSearchParams): BulkQuery {
  const pairs = (name: string) => Object.fromEntries(q.getAll(name).map((p) => [p.slice(0, p.indexOf("=")), p.slice(p.indexOf("=") + 1)]));
  const out: Record<string, unknown> = {};
  for (const name of ["workflow", "workflowId", "createdFrom", "createdBefore", "parent", "deadlineWithin"]) if (q.get(name)) out[name] = q.get(name);
  for (const name of ["stuck", "top", "retrying", "willMiss"]) if (q.get(name) === "true") out[name] = true;
  if (q.has("phase")) out["phases"] = q.getAll("phase");
  if (q.has("label")) out["labels"] = pairs("label");
  if (q.has("input")) out["input"] = pairs("input");
  return out as BulkQuery;
}

export function Bulk({ query, onClose }: { query: URLSearchParams; onClose: () => void }) {
  const [operation, setOperation] = useState("pause");
  const [reason, setReason] = useState("");
  const [results, setResults] = useState<BulkResult[] | null>(null);
  const [done, setDone] = useState(false); // what is shown was done, and not only tried
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const stop = useRef<AbortController | null>(null);
  const go = async (dryRun: boolean) => {
    const all: BulkResult[] = [];
    setBusy(true); setError(null); setResults([]); setDone(!dryRun);
    stop.current = new AbortController();
    try {
      await bulk(operation, { query: bulkQuery(query), dryRun, runs: most, actor: "page", ...(reason ? { reason } : {}) },
        (r) => { all.push(r); if (all.length % 50 === 0) setResults([...all]); }, stop.current.signal);
    } catch (e) {
      if (!stop.current.signal.aborted) setError(e);
    } finally {
      setResults(all);
      setBusy(false);
    }
  };
  const close = () => { stop.current?.abort(); onClose(); };
  const tried = results !== null && !done && !busy && error === null;
  return (
    <Dialog title="Bulk actions" onClose={close}>
      <form class="bulk" onSubmit={(e) => { e.preventDefault(); void go(!tried); }}>
        <label>What to do <select value={operation} onChange={(e) => { setOperation(e.currentTarget.value); setResults(null); }}>
          {operations.map(([name, label]) => <option key={name} value={name}>{label}</option>)}</select></label>
        <label>Reason <input value={reason} onInput={(e) => setReason(e.currentTarget.value)} placeholder="kept in the history" /></label>
        <Problem error={error} />
        {results && !(error && results.length === 0) ? <Results results={results} done={done} busy={busy} /> : <p class="dim">First it shows which runs it would be, at most {most}, and does nothing.</p>}
        <div class="menu">
          <button type="button" onClick={close}>{done && !busy ? "Close" : busy ? "Stop" : "Back"}</button>
          {done && !busy ? null : <button type="submit" class={tried ? "danger" : "main"} disabled={busy || tried && results.length === 0}>
            {tried ? `Apply to ${results.length} run${results.length === 1 ? "" : "s"}` : "Preview"}</button>}
        </div>
      </form>
    </Dialog>
  );
}

function Results({ results, done, busy }: { results: BulkResult[]; done: boolean; busy: boolean }) {
  const refused = results.filter((r) => r.message);
  const ok = done ? results.filter((r) => r.done).length : results.length - refused.length;
  return (
    <>
      <p class="verdict" role="status">{busy ? "… " : ""}{ok} {done ? "done" : "would be changed"}{refused.length > 0 ? `, ${refused.length} refused` : ""}{results.length === 0 && !busy ? ": no run is like that" : ""}</p>
      <ul class="results" tabIndex={0} aria-label="Runs">{[...refused, ...results.filter((r) => !r.message)].slice(0, 200).map((r) => (
        <li key={r.run}><bdi>{plain(r.workflowId || r.run.slice(0, 18))}</bdi> <Phase phase={r.phase} /> <span class="dim" dir="auto">{plain(r.message ?? "")}</span></li>
      ))}</ul>
    </>
  );
}
