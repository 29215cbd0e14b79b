// The list of runs. The text that chooses them is kept in the address.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import { Says } from "./says.tsx";
import type { RunSummary } from "./api.ts";
import { countRuns } from "./api.ts";
import { useAsked } from "./asked.ts";
import { Bulk } from "./bulk.tsx";
import { Field, Histogram } from "./find.tsx";
import { usePageKeys } from "./keys.ts";
import { Chip, Link, Menu, Phase, Problem, Ticking, Time } from "./parts.tsx";
import { inView, phasesOf, runsOf, terms, viewOf, withoutPhases, withPhase } from "./query.ts";
import { useRunList, useSeen } from "./runlist.ts";
import { Needs } from "./signin.tsx";
import { go, store, stored } from "./state.ts";
import { stateOfRun } from "./states.ts";
import { length, parse } from "./time.ts";
import { isClosed } from "./timeline.ts";

const views: { label: string; q: string; says: string }[] = [
  { label: "All", q: "", says: "every run" },
  { label: "Open", q: "is:open", says: "runs that have not ended" },
  { label: "Retrying", q: "is:retrying", says: "runs with a step that failed and is tried again" },
  { label: "Deadline soon", q: "deadline:1h", says: "a deadline within an hour, the soonest first" },
  { label: "Will miss", q: "is:late", says: "runs that will miss their deadline" },
  { label: "Failed", q: "is:failed is:timed-out", says: "runs that failed or timed out" },
  { label: "Stuck", q: "is:stuck", says: "runs that cannot go on until somebody acts" },
];

// listQuery is what the API is asked. Children of other runs are listed where one asks for them.
function listQuery(q: string): URLSearchParams {
  return new URLSearchParams({ ...(q ? { q } : {}), ...(terms(q).some((t) => /^(parent|id):/.test(t)) ? {} : { top: "true" }), limit: "100" });
}

// Columns that one may leave out.
const columns = ["Flow", "Started", "Took", "Ends by", "About", "Labels"] as const;
type Column = (typeof columns)[number];

const readList = (key: string): string[] => { try { return JSON.parse(stored(key) ?? "[]") as string[]; } catch { return []; } };

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
  const [chosen, setShown] = useState(0);
  const at = useRef(0); // the chosen row: a key may come before the one before it is drawn
  const setChosen = (i: number) => { at.current = i; setShown(i); };
  const [many, setMany] = useState<"" | "all" | "selected">("");
  const q = new URLSearchParams(search).get("q") ?? "";
  const query = listQuery(q);
  const key = query.toString();
  const find = (to: string) => go(runsOf(to), true);
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set(readList("pawl.columns")));
  const [selected, setShownSelected] = useState<ReadonlyMap<string, RunSummary>>(new Map());
  const kept = useRef(selected); // as with the chosen row
  const setSelected = (to: ReadonlyMap<string, RunSummary>) => { kept.current = to; setShownSelected(to); };
  const lastSelected = useRef(0);
  const rowHeight = useRowHeight();
  const looks = useRef(false), over = useRef(false);
  const { runs, next, error, more, fresh, take } = useRunList(key, () => looks.current || over.current);
  const seen = useSeen(runs?.length ?? 0, rowHeight);
  looks.current = seen.from > 0 || chosen > 0; // whoever points at a row, has chosen one, or has scrolled down
  useLayoutEffect(() => { setChosen(0); setSelected(new Map()); }, [key]); // before a key comes
  const select = (i: number, range: boolean) => {
    const to = new Map(kept.current), on = !to.has(runs?.[i]?.run ?? "");
    for (const r of (runs ?? []).slice(...(range ? [Math.min(i, lastSelected.current), Math.max(i, lastSelected.current) + 1] : [i, i + 1]))) {
      if (on || range) to.set(r.run, r); else to.delete(r.run);
    }
    lastSelected.current = i;
    setSelected(to);
  };
  useEffect(() => { // what comes next is asked for before one has scrolled to it
    if (runs && next && seen.to > runs.length - 30) more();
  }, [runs, next, seen.to]);
  usePageKeys((e) => {
    const n = runs?.length ?? 0, r = runs?.[at.current];
    if (e.key === "j") setChosen(Math.min(at.current + 1, Math.max(n - 1, 0)));
    else if (e.key === "k") setChosen(Math.max(at.current - 1, 0));
    else if (e.key.toLowerCase() === "x") select(at.current, e.shiftKey);
    else if (e.key === "Enter" && r && !(e.target instanceof HTMLElement && e.target.closest("table, button, summary"))) go(`/run/${r.run}`);
    else return false;
    return true;
  }, runs !== null);
  useEffect(() => { // the chosen run comes into sight, also where it has no row yet
    const y = (seen.ref.current?.getBoundingClientRect().top ?? NaN) + chosen * rowHeight;
    if (chosen > 0 && (y < 0 || y + rowHeight > innerHeight)) scrollBy(0, y - innerHeight / 2);
  }, [chosen]);
  return (
    <main>
      <h1>Runs</h1>
      <Field q={q} onFind={find} />
      <Views q={q} />
      <Histogram query={histogramQuery(query)} q={q} onFind={find} />
      <div class="row-between">
        <Counts q={q} />
        <Menu label="Columns">{columns.map((c) => <button type="button" key={c} aria-pressed={!left.has(c)} onClick={() => {
          const to = new Set(left);
          if (!to.delete(c)) to.add(c);
          setLeft(to);
          store("pawl.columns", JSON.stringify([...to]));
        }}>{left.has(c) ? "" : "✓ "}{c}</button>)}</Menu>
        {runs && runs.length > 0 ? <Needs role="operate"><button type="button" onClick={() => setMany("all")}>Bulk actions…</button></Needs> : null}
      </div>
      {many ? <Bulk query={query} runs={many === "selected" ? [...selected.values()] : null} onClose={() => setMany("")} /> : null}
      <Problem error={error} />
      {fresh > 0 ? <p class="fresh" role="status"><button type="button" onClick={() => { setChosen(0); take(); }}>{fresh} new ↑</button></p> : null}
      {runs === null ? <p class="dim">Loading…</p> : runs.length === 0 && !next ? <Empty q={q} /> : (
        <table class="runs" aria-rowcount={next ? -1 : runs.length + 1} onPointerEnter={() => { over.current = true; }} onPointerLeave={() => { over.current = false; }}>
          <thead><tr><th class="tick"><span class="unseen">Selected</span></th><th>Run</th><th class="state">State</th>{columns.map((c) => left.has(c) ? null : <th key={c} class={classOf(c)}>{c}</th>)}</tr></thead>
          <tbody ref={seen.ref as RefObject<HTMLTableSectionElement>}>
            <Space height={seen.from * rowHeight} />
            {runs.slice(seen.from, seen.to).map((r, i) => <RowOf key={r.run} r={r} chosen={seen.from + i === chosen} left={left} selected={selected.has(r.run)} onSelect={(range) => select(seen.from + i, range)} />)}
            <Space height={(runs.length - seen.to) * rowHeight} />
          </tbody>
        </table>
      )}
      {selected.size > 0 ? (
        <div class="selection" role="status">
          {selected.size} selected
          <Needs role="operate"><button type="button" class="main" onClick={() => setMany("selected")}>Act on {selected.size === 1 ? "it" : "them"}…</button></Needs>
          <button type="button" onClick={() => setMany("all")}>All that match…</button>
          <button type="button" onClick={() => setSelected(new Map())}>Clear</button>
        </div>
      ) : null}
      {runs && runs.length > 0 ? <p class="dim loaded">{next ? `${runs.length} are loaded; more come as you scroll.` : `${runs.length} run${runs.length === 1 ? "" : "s"}.`}</p> : null}
    </main>
  );
}

// Space is as high as the rows that are not in the document.
const Space = ({ height }: { height: number }) => height > 0 ? <tr class="space" aria-hidden="true"><td colSpan={9} style={{ height: `${height}px` }} /></tr> : null;

const classOf = (c: Column): string => c.toLowerCase().replace(" ", "-");

// The last day is shown where the text names no time.
const histogramQuery = (query: URLSearchParams): string => {
  const to = new URLSearchParams(query);
  to.delete("limit");
  return to.toString();
};

// Views choose how runs are. What else the text says stays; a text of one's own can be kept.
function Views({ q }: { q: string }) {
  const [own, setOwn] = useState(readList("pawl.views"));
  const keep = (to: string[]) => { setOwn(to); store("pawl.views", JSON.stringify(to)); };
  const isOwn = own.includes(q), known = isOwn || views.some((v) => v.q === q);
  return (
    <nav class="views" aria-label="Views">
      {views.map((v) => <Link key={v.label} to={runsOf(inView(q, v.q))} current={!isOwn && viewOf(q) === v.q}><span title={v.says}>{v.label}</span></Link>)}
      {own.map((v) => <Link key={v} to={runsOf(v)} current={v === q}><bdi>{plain(v)}</bdi></Link>)}
      {isOwn ? <button type="button" onClick={() => keep(own.filter((v) => v !== q))}>Forget this view</button> : !known ? <button type="button" onClick={() => keep([...own, q])}>Keep as a view</button> : null}
    </nav>
  );
}

const recount = 5000; // ms between two counts

// Counts says how many runs the text leaves in each phase, whichever phases are shown.
function Counts({ q }: { q: string }) {
  const query = listQuery(withoutPhases(q));
  query.delete("limit");
  const [counts] = useAsked(() => countRuns(query), query.toString(), recount);
  const shown = phasesOf(q);
  return (
    <nav class="phases" aria-label="Runs by phase">
      {(counts ?? []).filter((c) => c.runs > 0 || c.more).map((c) => (
        <Link key={c.phase} to={runsOf(withPhase(q, c.phase))} current={shown.includes(`is:${c.phase.replace("_", "-")}`)}>
          <b>{c.runs.toLocaleString("en")}{c.more ? "+" : ""}</b> <Phase phase={c.phase} />
        </Link>
      ))}
    </nav>
  );
}

function Empty({ q }: { q: string }) {
  if (q) return <p class="empty">No runs match. <Link to="/runs">Show all runs</Link></p>;
  return (
    <div class="empty">
      <p>There are no runs yet. Start one:</p>
      <pre>pawl run examples/backup/flow.yaml --server {location.origin}</pre>
    </div>
  );
}

function RowOf({ r, chosen, left, selected, onSelect }: { r: RunSummary; chosen: boolean; left: ReadonlySet<string>; selected: boolean; onSelect: (range: boolean) => void }) {
  const open = !isClosed(r.phase), began = parse(r.createdAt), first = r.ends?.[0];
  const late = open && r.expectedEnd !== undefined, name = plain(r.workflowId || r.run.slice(0, 18));
  const cells: Record<Column, ComponentChildren> = {
    Flow: <bdi>{plain(r.workflow)}</bdi>,
    Started: <Time at={r.createdAt} ago />,
    Took: open ? <Ticking key={r.createdAt} of={(current) => length(current - began)} /> : length(parse(r.endedAt) - began),
    "Ends by": open && first?.at && !first.renewed ? <span class={late ? "bad" : ""} title={plain([first.step, first.text].filter(Boolean).join(" "))}>{late ? "⚠ " : ""}<Time at={first.at} ago /></span> : null,
    About: (
      <>
        {r.says ? <span class={r.status === "stuck" || r.unfinished ? "bad" : ""} title={plain(r.says.text)}><Says says={r.says} run={r.run} /></span> : null}
        {late ? <span class="bad"> misses its deadline</span> : null}
      </>
    ),
    Labels: Object.entries(r.labels ?? {}).map(([k, v]) => <span class="tag" key={k}><bdi>{plain(`${k}=${v}`)}</bdi></span>),
  };
  return (
    <tr class={`${chosen ? "chosen" : ""} ${selected ? "selected" : ""}`}>
      <td class="tick"><input type="checkbox" checked={selected} aria-label={`Select ${name}`} onClick={(e) => { e.preventDefault(); onSelect(e.shiftKey); }} /></td>
      <td><Link to={`/run/${r.run}`}><bdi>{name}</bdi></Link></td>
      <td class="state"><Chip state={stateOfRun(r)} /></td>
      {columns.map((c) => left.has(c) ? null : <td key={c} class={classOf(c)}>{cells[c]}</td>)}
    </tr>
  );
}
