// The runs of a query: page by page, and kept as they are on the server.
import { useEffect, useRef, useState } from "preact/hooks";
import type { RunSummary } from "./api.ts";
import { changes, listRuns } from "./api.ts";

const quiet = 300; // ms between two looks at what has changed
// What streams are not asked for; lists of such a query are asked for again.
const listsOnly = ["limit", "cursor", "stuck", "willMiss", "input"];

export interface RunList {
  runs: RunSummary[] | null; // null: not known yet
  next: boolean; // there are more
  error: unknown;
  more: () => void;
}

// useRunList lists the runs of a query. While atTop says that one sees the first of them, runs that are new come in
// there, and the list begins again; else those that were loaded stay, so that one does not lose one's place.
export function useRunList(key: string, atTop: () => boolean): RunList {
  const [shown, setShown] = useState<{ runs: RunSummary[] | null; next: string }>({ runs: null, next: "" });
  const [error, setError] = useState<unknown>(null);
  const more = useRef<() => void>(() => {});
  useEffect(() => {
    let over = false, first: "no" | "busy" | "again" = "no", loading = false;
    let rows: RunSummary[] = [], next = "";
    const changed = new Map<string, RunSummary | null>(); // since the last look; null: the query selects it no more
    const show = () => { if (!over) { setShown({ runs: rows, next }); setError(null); } };
    const fail = (e: unknown) => { if (!over) setError(e); };
    const begin = async () => {
      if (first !== "no") { first = "again"; return; }
      first = "busy";
      try {
        const got = await listRuns(new URLSearchParams(key));
        const head = got.runs ?? [], seen = new Set(head.map((r) => r.run));
        const rest = atTop() ? [] : rows.filter((r) => !seen.has(r.run));
        if (rest.length === 0) next = got.next ?? "";
        rows = [...head, ...rest];
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
    const followed = new URLSearchParams(key);
    const exact = !listsOnly.slice(2).some((name) => followed.has(name));
    for (const name of listsOnly) followed.delete(name);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      timer = undefined;
      let fresh = !exact || changed.has("");
      changed.delete("");
      const known = new Set(rows.map((r) => r.run));
      for (const [run, r] of changed) if (r && !known.has(run)) fresh = true;
      if (exact && changed.size > 0) {
        rows = rows.flatMap((r) => { const to = changed.get(r.run); return to === undefined ? [r] : to ? [to] : []; });
        if (!fresh) show();
      }
      changed.clear();
      if (fresh) void begin();
    };
    setShown({ runs: null, next: "" });
    void begin();
    more.current = () => void load();
    const end = changes(followed, (c) => {
      changed.set(c?.run?.run ?? "", c?.run && !c.left ? c.run : null);
      timer ??= setTimeout(look, quiet);
    });
    return () => { over = true; clearTimeout(timer); end(); };
  }, [key]);
  return { runs: shown.runs, next: shown.next !== "", error, more: () => more.current() };
}

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
