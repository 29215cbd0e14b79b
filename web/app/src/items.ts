// The items of long lists, which the server gives page by page, and the child runs of steps.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Run, Step } from "./api.ts";
import { getItems } from "./api.ts";

const page = 200;

// withItems returns a run with items that were asked for. Those that have come since with the run itself are newer.
export function withItems(run: Run, loaded: ReadonlyMap<number, Step>): Run {
  if (loaded.size === 0) return run;
  const own = new Set((run.steps ?? []).map((s) => s.id));
  const more = [...loaded.values()].filter((s) => !own.has(s.id));
  return more.length === 0 ? run : { ...run, steps: [...run.steps ?? [], ...more].sort((a, b) => a.id - b.id) };
}

// itemOf reads the key of an item: pages[3].
export function itemOf(key: string): { group: string; index: number } | null {
  const m = /^(.*)\[(\d+)\]$/.exec(key);
  return m ? { group: m[1] ?? "", index: Number(m[2]) } : null;
}

// useItems adds the items that are asked for to a run, and the one that is wanted.
export function useItems(run: Run | null, event: number, wanted: string): [Run | null, (group: string, offset: number) => void] {
  const key = `${run?.run} ${event}`;
  const [loaded, setLoaded] = useState<{ key: string; items: ReadonlyMap<number, Step> }>({ key, items: new Map() });
  const asked = useRef(new Set<string>());
  const load = (group: string, offset: number) => {
    const what = `${key} ${group} ${offset}`;
    if (!run || asked.current.has(what)) return;
    asked.current.add(what);
    getItems(run.run, { of: group, offset, limit: page, ...(event ? { at: event } : {}) }).then(
      (p) => setLoaded((old) => ({ key, items: new Map([...old.key === key ? old.items : [], ...(p.items ?? []).map((s) => [s.id, s] as const)]) })),
      () => asked.current.delete(what),
    );
  };
  const item = itemOf(wanted);
  const missing = item && run?.steps?.some((s) => s.step === item.group && s.folded) && !run.steps.some((s) => s.step === wanted) ? item : null;
  useEffect(() => { if (missing) load(missing.group, missing.index - missing.index % page); }, [missing?.group, missing?.index, key]);
  const whole = useMemo(() => run && loaded.key === key ? withItems(run, loaded.items) : run, [run, loaded, key]);
  return [whole, load];
}
