// The list of runs. Its filters are the query of the API, kept in the address.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Count, RunSummary } from "./api.ts";
import { countRuns } from "./api.ts";
import { Bulk } from "./bulk.tsx";
import { Chip, elsewhere, Link, Phase, Problem, Ticking, Time } from "./parts.tsx";
import { useRunList, useSeen } from "./runlist.ts";
import { Needs } from "./signin.tsx";
import { go } from "./state.ts";
import { stateOfSummary } from "./states.ts";
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

// The height of a row, as in the stylesheet: on a narrow screen it is a card.
const rowHeights = { wide: 34, narrow: 68 };
const narrow = matchMedia("(max-width: 640px)");

function useRowHeight(): number {
  const [is, setIs] = useState(narrow.matches);
  useEffect(() => {
    const change = () => setIs(narrow.matches);
    narrow.addEventListener("change", change);
    return () => narrow.removeEventListener("change", change);
  }, []);
  return is ? rowHeights.narrow : rowHeights.wide;
}

export function Runs({ search }: { search: string }) {
  const [chosen, setChosen] = useState(0);
  const [many, setMany] = useState(false);
  const query = listQuery(search);
  const key = query.toString();
  const rowHeight = useRowHeight();
  const looks = useRef(false), over = useRef(false);
  const { runs, next, error, more, fresh, take } = useRunList(key, () => looks.current || over.current);
  const seen = useSeen(runs?.length ?? 0, rowHeight);
  looks.current = seen.from > 0 || chosen > 0; // whoever points at a row, has chosen one, or has scrolled down
  useEffect(() => setChosen(0), [key]);
  useEffect(() => { // what comes next is asked for before one has scrolled to it
    if (runs && next && seen.to > runs.length - 30) more();
  }, [runs, next, seen.to]);
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if (elsewhere(e)) return;
      const n = runs?.length ?? 0;
      if (e.key === "j") setChosen((c) => Math.min(c + 1, Math.max(n - 1, 0)));
      else if (e.key === "k") setChosen((c) => Math.max(c - 1, 0));
      else if (e.key === "Enter" && !(e.target instanceof HTMLElement && e.target.closest("table, button"))) { const r = runs?.[chosen]; if (r) go(`/run/${r.run}`); }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [runs, chosen]);
  useEffect(() => { // the chosen run comes into sight, also where it has no row yet
    const y = (seen.ref.current?.getBoundingClientRect().top ?? NaN) + chosen * rowHeight;
    if (chosen > 0 && (y < 0 || y + rowHeight > innerHeight)) scrollBy(0, y - innerHeight / 2);
  }, [chosen]);
  return (
    <main>
      <h1>Runs</h1>
      <nav class="views" aria-label="Views">
        {views.map((v) => (
          <Link key={v.label} to={v.query ? `/runs?${v.query}` : "/runs"} current={isView(search, v.query)}>
            <span title={v.says}>{v.label}</span>
          </Link>
        ))}
      </nav>
      <Filters search={search} />
      <Counts search={search} />
      {runs && runs.length > 0 ? <Needs role="operate"><div class="actions"><button type="button" onClick={() => setMany(true)}>Bulk actions…</button></div></Needs> : null}
      {many ? <Bulk query={query} onClose={() => setMany(false)} /> : null}
      <Problem error={error} />
      {fresh > 0 ? <p class="fresh" role="status"><button type="button" onClick={() => { setChosen(0); take(); }}>{fresh} new ↑</button></p> : null}
      {runs === null ? <p class="dim">Loading…</p> : runs.length === 0 && !next ? <Empty search={search} /> : (
        <table class="runs" aria-rowcount={next ? -1 : runs.length + 1} onPointerEnter={() => { over.current = true; }} onPointerLeave={() => { over.current = false; }}>
          <thead><tr><th>Run</th><th>Flow</th><th>State</th><th>Started</th><th>Took</th><th>About</th></tr></thead>
          <tbody ref={seen.ref as RefObject<HTMLTableSectionElement>}>
            <Space height={seen.from * rowHeight} />
            {runs.slice(seen.from, seen.to).map((r, i) => <RowOf key={r.run} r={r} chosen={seen.from + i === chosen} />)}
            <Space height={(runs.length - seen.to) * rowHeight} />
          </tbody>
        </table>
      )}
      {runs && runs.length > 0 ? <p class="dim loaded">{next ? `${runs.length} are loaded; more come as you scroll.` : `${runs.length} run${runs.length === 1 ? "" : "s"}.`}</p> : null}
    </main>
  );
}

// Space is as high as the rows that are not in the document.
const Space = ({ height }: { height: number }) => height > 0 ? <tr class="space" aria-hidden="true"><td colSpan={6} style={{ height: `${height}px` }} /></tr> : null;

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
    go(`/runs${to.size > 0 ? `?${to}` : ""}`, true);
  };
  const field = (name: (typeof filters)[number], label: string, hint: string) => (
    <label>{label} <input name={name} type="search" value={q.get(name) ?? ""} placeholder={hint}
      onChange={(e) => set(name, e.currentTarget.value.trim())} /></label>
  );
  return (
    <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
      {field("workflow", "Flow", "order")}
      {field("workflowId", "Run", "order-42")}
      {field("label", "Label", "tenant=acme")}
      {field("input", "Input", "orderId=42")}
    </form>
  );
}

const recount = 5000; // ms between two counts

// Counts says how many runs the filters leave in each phase, whichever phases are shown.
function Counts({ search }: { search: string }) {
  const [counts, setCounts] = useState<Count[]>([]);
  const query = listQuery(search);
  for (const name of ["phase", "limit", "cursor"]) query.delete(name);
  const key = query.toString();
  useEffect(() => {
    let over = false;
    const count = () => countRuns(new URLSearchParams(key)).then((c) => { if (!over) setCounts(c); }, () => {}); // the list tells of errors
    void count();
    const timer = setInterval(() => { if (!document.hidden) void count(); }, recount);
    return () => { over = true; clearInterval(timer); };
  }, [key]);
  const shown = new URLSearchParams(search).getAll("phase");
  const only = (phase: string) => {
    const to = new URLSearchParams(search);
    to.delete("phase");
    if (!(shown.length === 1 && shown[0] === phase)) to.set("phase", phase);
    return to.size > 0 ? `/runs?${to}` : "/runs";
  };
  return (
    <nav class="phases" aria-label="Runs by phase">
      {counts.filter((c) => c.runs > 0 || c.more).map((c) => (
        <Link key={c.phase} to={only(c.phase)} current={shown.includes(c.phase)}>
          <b>{c.runs.toLocaleString("en")}{c.more ? "+" : ""}</b> <Phase phase={c.phase} />
        </Link>
      ))}
    </nav>
  );
}

function Empty({ search }: { search: string }) {
  if (new URLSearchParams(search).size > 0) return <p class="empty">No runs match. <Link to="/runs">Show all runs</Link></p>;
  return (
    <div class="empty">
      <p>There are no runs yet. Start one:</p>
      <pre>pawl run examples/backup/flow.yaml --server {location.origin}</pre>
    </div>
  );
}

function RowOf({ r, chosen }: { r: RunSummary; chosen: boolean }) {
  const open = !isClosed(r.phase), began = parse(r.createdAt), deadline = parse(r.deadline);
  const late = open && r.expectedEnd !== undefined;
  return (
    <tr class={chosen ? "chosen" : ""}>
      <td><Link to={`/run/${r.run}`}><bdi>{plain(r.workflowId || r.run.slice(0, 18))}</bdi></Link></td>
      <td><bdi>{plain(r.workflow)}</bdi></td>
      <td><Chip state={stateOfSummary(r)} /></td>
      <td><Time at={r.createdAt} ago /></td>
      <td class="num">{open ? <Ticking key={r.createdAt} of={(current) => length(current - began)} /> : length(parse(r.endedAt) - began)}</td>
      <td class="about">
        {open && r.problem ? <bdi class="bad" title={plain(r.problem)}>{plain(r.problem.slice(0, 300))}</bdi> : r.message ? <bdi title={plain(r.message.slice(0, 1000))}>{plain(r.message.slice(0, 300))}</bdi> : null}
        {open && Number.isFinite(deadline) ? <span class={late ? "bad" : "dim"}>{late ? "misses its deadline, " : ""}<Ticking key={r.deadline} of={(current) => `${length(deadline - current)} left`} /></span> : null}
        {open && r.wake && r.wake !== r.deadline ? <span class="dim">next <Time at={r.wake} ago /></span> : null}
        {Object.entries(r.labels ?? {}).map(([k, v]) => <span class="tag" key={k}><bdi>{plain(`${k}=${v}`)}</bdi></span>)}
      </td>
    </tr>
  );
}
