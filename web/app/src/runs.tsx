// The list of runs. Its filters are the query of the API, kept in the address.
import { useEffect, useRef, useState } from "preact/hooks";
import type { RunSummary } from "./api.ts";
import { changes, listRuns } from "./api.ts";
import { Bulk } from "./bulk.tsx";
import { Link, Phase, Problem, Time } from "./parts.tsx";
import { connected, go, now } from "./state.ts";
import { length, parse } from "./time.ts";
import { isClosed } from "./timeline.ts";

const views: { label: string; query: string; says: string }[] = [
  { label: "All", query: "", says: "every run" },
  { label: "Open", query: "phase=pending&phase=running&phase=waiting&phase=paused", says: "runs that have not ended" },
  { label: "Retrying", query: "retrying=true", says: "runs with a step that failed and is tried again" },
  { label: "Deadline soon", query: "deadlineWithin=1h", says: "a deadline within an hour, the soonest first" },
  { label: "Will miss", query: "willMiss=true", says: "runs that will miss their deadline" },
  { label: "Failed", query: "phase=failed&phase=timed_out", says: "runs that failed or timed out" },
  { label: "Stuck", query: "stuck=true", says: "runs that cannot go on until somebody acts" },
];

const filters = ["workflow", "workflowId", "label", "input"] as const;

// listQuery is what the API is asked, from the address of the page.
function listQuery(search: string): URLSearchParams {
  const q = new URLSearchParams(search);
  if (!q.has("parent") && !q.has("top")) q.set("top", "true");
  if (!q.has("limit")) q.set("limit", "100");
  return q;
}

export function Runs({ search }: { search: string }) {
  const [runs, setRuns] = useState<RunSummary[] | null>(null);
  const [next, setNext] = useState<string>("");
  const [error, setError] = useState<unknown>(null);
  const [chosen, setChosen] = useState(0);
  const [many, setMany] = useState(false);
  const query = listQuery(search);
  const key = query.toString();
  const more = useRef(1); // pages that are shown
  const load = useRef<() => void>(() => {});
  useEffect(() => {
    more.current = 1;
    let stop = false, running = false, again = false;
    const fetchAll = async () => {
      if (running) { again = true; return; }
      running = true;
      try {
        const all: RunSummary[] = [];
        let cursor = "";
        for (let page = 0; page < more.current; page++) {
          const q = new URLSearchParams(key);
          if (cursor) q.set("cursor", cursor);
          const got = await listRuns(q);
          all.push(...(got.runs ?? []));
          cursor = got.next ?? "";
          if (!cursor) break;
        }
        if (!stop) { setRuns(all); setNext(cursor); setError(null); }
      } catch (e) {
        if (!stop) setError(e);
      } finally {
        running = false;
        if (again && !stop) { again = false; void fetchAll(); }
      }
    };
    let timer: ReturnType<typeof setTimeout> | undefined;
    const soon = () => { timer ??= setTimeout(() => { timer = undefined; void fetchAll(); }, 300); };
    load.current = () => void fetchAll();
    setRuns(null);
    void fetchAll();
    const followed = new URLSearchParams(key);
    for (const name of ["limit", "cursor", "stuck", "willMiss", "input"]) followed.delete(name);
    const end = changes(followed, soon, (ok) => { connected.value = ok; });
    return () => { stop = true; clearTimeout(timer); end(); };
  }, [key]);
  useEffect(() => setChosen(0), [key]);
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if (e.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
      const n = runs?.length ?? 0;
      if (e.key === "j") setChosen((c) => Math.min(c + 1, Math.max(n - 1, 0)));
      else if (e.key === "k") setChosen((c) => Math.max(c - 1, 0));
      else if (e.key === "Enter" && e.target === document.body) { const r = runs?.[chosen]; if (r) go(`/run/${r.run}`); }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [runs, chosen]);
  useEffect(() => { document.querySelector("tr.chosen")?.scrollIntoView({ block: "nearest" }); }, [chosen]);
  return (
    <main>
      <h1>Runs</h1>
      <nav class="views" aria-label="Views">
        {views.map((v) => (
          <Link key={v.label} to={v.query ? `/?${v.query}` : "/"} class={isView(search, v.query) ? "current" : ""}>
            <span title={v.says}>{v.label}</span>
          </Link>
        ))}
      </nav>
      <Filters search={search} />
      {runs && runs.length > 0 ? <div class="actions"><button type="button" onClick={() => setMany(true)}>Change all of these…</button></div> : null}
      {many ? <Bulk query={query} onClose={() => setMany(false)} /> : null}
      <Problem error={error} />
      {runs === null ? <p class="dim">Loading…</p> : runs.length === 0 ? <Empty search={search} /> : (
        <div class="scroll">
          <table class="runs">
            <thead><tr><th>Run</th><th>Workflow</th><th>Phase</th><th>Created</th><th>Took</th><th>About</th></tr></thead>
            <tbody>{runs.map((r, i) => <RowOf key={r.run} r={r} chosen={i === chosen} />)}</tbody>
          </table>
        </div>
      )}
      {next ? <button type="button" onClick={() => { more.current++; load.current(); }}>Show more</button> : null}
    </main>
  );
}

function isView(search: string, query: string): boolean {
  const q = new URLSearchParams(search);
  for (const f of filters) q.delete(f);
  return q.toString() === new URLSearchParams(query).toString();
}

function Filters({ search }: { search: string }) {
  const q = new URLSearchParams(search);
  const set = (name: string, value: string) => {
    const to = new URLSearchParams(search);
    if (value) to.set(name, value); else to.delete(name);
    go(`/${to.size > 0 ? `?${to}` : ""}`, true);
  };
  const field = (name: (typeof filters)[number], label: string, hint: string) => (
    <label>{label} <input name={name} type="search" value={q.get(name) ?? ""} placeholder={hint}
      onChange={(e) => set(name, e.currentTarget.value.trim())} /></label>
  );
  return (
    <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
      {field("workflow", "Workflow", "order")}
      {field("workflowId", "Workflow id", "order-42")}
      {field("label", "Label", "tenant=acme")}
      {field("input", "Input", "orderId=42")}
    </form>
  );
}

function Empty({ search }: { search: string }) {
  if (new URLSearchParams(search).size > 0) return <p class="empty">No run is like that. <Link to="/">Show all runs</Link></p>;
  return (
    <div class="empty">
      <p>There are no runs yet. Start one:</p>
      <pre>pawl run examples/backup/flow.yaml --server {location.origin}</pre>
    </div>
  );
}

function RowOf({ r, chosen }: { r: RunSummary; chosen: boolean }) {
  const open = !isClosed(r.phase);
  const took = (open ? now.value : parse(r.endedAt)) - parse(r.createdAt);
  const left = parse(r.deadline) - now.value;
  const late = open && r.deadline !== undefined && r.expectedEnd !== undefined && parse(r.expectedEnd) > parse(r.deadline);
  return (
    <tr class={chosen ? "chosen" : ""}>
      <td><Link to={`/run/${r.run}`}><bdi>{r.workflowId || r.run.slice(0, 18)}</bdi></Link></td>
      <td><bdi>{r.workflow}</bdi></td>
      <td><Phase phase={r.phase} /></td>
      <td><Time at={r.createdAt} ago /></td>
      <td class="num">{length(took)}</td>
      <td class="about">
        {r.message ? <bdi>{r.message}</bdi> : null}
        {open && r.retrying ? <span class="tag">retrying</span> : null}
        {open && Number.isFinite(left) ? <span class={late ? "tag urgent" : "dim"}>{late ? "will miss: " : ""}{length(left)} left</span> : null}
        {open && r.wake ? <span class="dim"> next <Time at={r.wake} ago /></span> : null}
        {Object.entries(r.labels ?? {}).map(([k, v]) => <span class="tag" key={k}><bdi>{k}={v}</bdi></span>)}
      </td>
    </tr>
  );
}
