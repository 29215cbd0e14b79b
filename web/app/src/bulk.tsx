// Applies an operation to all runs of a query: first it is told which ones, and nothing happens to them.
import { useRef, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { BulkResult, RunSummary } from "./api.ts";
import { bulk, operateRun } from "./api.ts";
import { Chip, Dialog, Problem } from "./parts.tsx";
import { stateOf } from "./states.ts";

const operations: [string, string][] = [
  ["pause", "Pause"], ["resume", "Resume"], ["retry", "Retry failed steps"], ["cancel-gracefully", "Cancel, let attempts finish"],
  ["cancel", "Cancel"], ["terminate", "Terminate"],
];

const most = 1000; // runs of one operation

// Bulk acts on the runs of a query, or on those that were selected.
export function Bulk({ query, runs, onClose }: { query: URLSearchParams; runs: RunSummary[] | null; onClose: () => void }) {
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
    const told = (r: BulkResult) => { all.push(r); if (all.length % 50 === 0) setResults([...all]); };
    const body = { actor: "page", ...(reason ? { reason } : {}) };
    try {
      if (runs) await each(runs, operation, body, dryRun, told, stop.current.signal);
      else await bulk(operation, { ...body, query: { q: query.get("q") ?? "", top: query.get("top") === "true" }, dryRun, runs: most }, told, stop.current.signal);
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

// each acts on runs one after the other. One that refuses does not stop the others.
async function each(runs: RunSummary[], operation: string, body: { actor: string }, dryRun: boolean, fn: (r: BulkResult) => void, signal: AbortSignal): Promise<void> {
  for (const { run, phase, status, workflow, workflowId } of runs) {
    const result: BulkResult = { run, phase, status, workflow, ...(workflowId ? { workflowId } : {}), done: !dryRun };
    try {
      if (!dryRun) await operateRun(run, operation, body);
    } catch (e) {
      result.done = false;
      result.message = String(e instanceof Error ? e.message : e);
    }
    if (signal.aborted) return;
    fn(result);
  }
}

function Results({ results, done, busy }: { results: BulkResult[]; done: boolean; busy: boolean }) {
  const refused = results.filter((r) => r.message);
  const ok = done ? results.filter((r) => r.done).length : results.length - refused.length;
  return (
    <>
      <p class="verdict" role="status">{busy ? "… " : ""}{ok} {done ? "done" : "would be changed"}{refused.length > 0 ? `, ${refused.length} refused` : ""}{results.length === 0 && !busy ? ": no run is like that" : ""}</p>
      <ul class="results" tabIndex={0} aria-label="Runs">{[...refused, ...results.filter((r) => !r.message)].slice(0, 200).map((r) => (
        <li key={r.run}><bdi>{plain(r.workflowId || r.run.slice(0, 18))}</bdi> <Chip state={stateOf(r.status)} /> <span class="dim" dir="auto">{plain(r.message ?? "")}</span></li>
      ))}</ul>
    </>
  );
}
