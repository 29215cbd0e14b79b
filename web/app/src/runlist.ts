// The runs of a query: page by page, and kept as they are on the server.
import { useEffect, useRef, useState } from "preact/hooks";
import type { RunSummary } from "./api.ts";
import { changes, listRuns } from "./api.ts";
import { followed } from "./query.ts";

const quiet = 300; // ms between two looks at what has changed

export interface RunList {
  runs: RunSummary[] | null; // null: not known yet
  next: boolean; // there are more
  error: unknown;
  more: () => void;
  fresh: number; // runs that are new and not shown yet
  take: () => void; // shows them
}

// The list that one has left last, and how far down one was: who comes back finds it so.
let leftAt: { key: string; rows: RunSummary[]; next: string; y: number } | null = null;

// placed keeps the rows of a list in their places: what is known of them is renewed, what is new is counted alone.
export function placed(rows: RunSummary[], head: RunSummary[]): { rows: RunSummary[]; fresh: number } {
  const known = new Set(rows.map((r) => r.run)), by = new Map(head.map((r) => [r.run, r]));
  return { rows: rows.map((r) => by.get(r.run) ?? r), fresh: head.filter((r) => !known.has(r.run)).length };
}

// useRunList lists the runs of a query. While holds says that one looks at certain rows, these keep their places, and
// runs that are new are counted; else they come in at the top.
export function useRunList(key: string, holds: () => boolean): RunList {
  const [shown, setShown] = useState<{ runs: RunSummary[] | null; next: string }>({ runs: null, next: "" });
  const [error, setError] = useState<unknown>(null);
  const [fresh, setFresh] = useState(0);
  const more = useRef<() => void>(() => {}), take = useRef<() => void>(() => {});
  useEffect(() => {
    let over = false, taken = false, first: "no" | "busy" | "again" = "no", loading = false;
    let rows: RunSummary[] = [], next = "";
    const changed = new Map<string, RunSummary | null>(); // since the last look; null: the query selects it no more
    const show = () => { if (!over) { setShown({ runs: rows, next }); setError(null); } };
    const fail = (e: unknown) => { if (!over) setError(e); };
    const begin = async () => {
      if (first !== "no") { first = "again"; return; }
      first = "busy";
      try {
        const got = await listRuns(new URLSearchParams(key));
        const head = got.runs ?? [];
        if (rows.length > 0 && holds() && !taken) {
          const kept = placed(rows, head);
          rows = kept.rows;
          setFresh(kept.fresh);
        } else {
          rows = head;
          next = got.next ?? "";
          setFresh(0);
        }
        taken = false;
        show();
      } catch (e) {
        fail(e);
      }
      const again = first as string === "again";
      first = "no";
      if (again && !over) void begin();
    };
    const load = async () => {
      if (loading || next === "") return;
      loading = true;
      const cursor = next;
      try {
        const q = new URLSearchParams(key);
        q.set("cursor", cursor);
        const got = await listRuns(q);
        if (next === cursor) { // else the list has begun again
          const seen = new Set(rows.map((r) => r.run));
          rows = [...rows, ...(got.runs ?? []).filter((r) => !seen.has(r.run))];
          next = got.next ?? "";
          show();
        }
      } catch (e) {
        fail(e);
      }
      loading = false;
    };
    const stream = new URLSearchParams(key);
    const exact = followed(stream.get("q") ?? ""); // else the list is asked for again
    for (const name of exact ? ["limit"] : ["limit", "q"]) stream.delete(name);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      timer = undefined;
      let again = !exact || changed.has("");
      changed.delete("");
      const known = new Set(rows.map((r) => r.run));
      for (const [run, r] of changed) if (r && !known.has(run)) again = true;
      if (exact && changed.size > 0) {
        rows = rows.flatMap((r) => { const to = changed.get(r.run); return to === undefined ? [r] : to ? [to] : []; });
        if (!again) show();
      }
      changed.clear();
      if (again) void begin();
    };
    const back = leftAt?.key === key ? leftAt : null;
    leftAt = null;
    if (back) {
      [rows, next] = [back.rows, back.next];
      show();
      requestAnimationFrame(() => scrollTo(0, back.y));
    } else setShown({ runs: null, next: "" });
    void begin();
    take.current = () => { taken = true; scrollTo(0, 0); void begin(); };
    more.current = () => void load();
    const end = changes(stream, (c) => {
      changed.set(c?.run?.run ?? "", c?.run && !c.left ? c.run : null);
      timer ??= setTimeout(look, quiet);
    });
    return () => { over = true; clearTimeout(timer); end(); leftAt = { key, rows, next, y: lastY }; };
  }, [key]);
  return { runs: shown.runs, next: shown.next !== "", error, more: () => more.current(), fresh, take: () => take.current() };
}

// How far down the window was before one left: what is left is not in the document any more when one has.
let lastY = 0;
if (typeof addEventListener === "function") addEventListener("scroll", () => { if (document.querySelector("table.runs")) lastY = scrollY; }, { passive: true });

// useSeen says which rows of a long table are on the screen, and some before and behind them.
export function useSeen(count: number, height: number): { ref: { current: HTMLElement | null }; from: number; to: number } {
  const ref = useRef<HTMLElement>(null);
  const [range, setRange] = useState({ from: 0, to: 60 });
  useEffect(() => {
    const measure = () => {
      const top = ref.current?.getBoundingClientRect().top ?? 0;
      const from = Math.max(Math.floor(-top / height) - 10, 0), to = Math.ceil((innerHeight - top) / height) + 10;
      setRange((old) => (old.from === from && old.to === to ? old : { from, to }));
    };
    measure();
    addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure);
    return () => { removeEventListener("scroll", measure); removeEventListener("resize", measure); };
  }, [count > 0, height]);
  return { ref, from: Math.min(range.from, count), to: Math.min(Math.max(range.to, 0), count) };
}
