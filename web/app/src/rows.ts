// The rows of a timeline: steps, items of lists and the steps of child runs below the steps that have them.
import type { Run, Step } from "./api.ts";
import { barsOf, gapsOf, isAttempt, isClosed, stripOf, type Bar, type Row } from "./timeline.ts";

// Shown is what of a run has rows.
export interface Shown {
  unfolded: ReadonlySet<string>; // keys of rows whose items, or whose child run, are shown
  children: ReadonlyMap<string, Run>; // child runs by the key of their row
  came: (key: string) => Bar[];
}

const phases = (counts: Record<string, number>): string => Object.entries(counts).map(([p, n]) => `${n} ${p.replaceAll("_", " ")}`).join(", ");

// counted says how items stand: 5 succeeded, 1 failed.
function counted(items: readonly Step[]): string {
  const counts: Record<string, number> = {};
  for (const s of items) counts[s.phase] = (counts[s.phase] ?? 0) + 1;
  return phases(counts);
}

// total is how many items a group has that have begun.
const total = (s: Step): number => Object.values(s.folded?.phases ?? {}).reduce((a, b) => a + b, 0);

const empty = { gaps: [], came: [], items: [], strip: null, fold: "", open: false, more: null, run: "" };

// rowsOf returns the rows of a run.
export function rowsOf(run: Run, shown: Shown): Row[] {
  const rows: Row[] = [];
  add(rows, run, shown, "", 0);
  if (isClosed(run.phase)) return rows;
  const begun = new Set((run.steps ?? []).map((s) => s.name));
  for (const p of run.plan ?? []) {
    if (!begun.has(p.name)) rows.push({ ...empty, key: p.name, name: p.name, step: undefined, depth: 0, bars: [], came: shown.came(p.name) });
  }
  return rows;
}

function add(rows: Row[], run: Run, shown: Shown, prefix: string, depth: number): void {
  const items = new Map<string, Step[]>();
  for (const s of run.steps ?? []) if (s.group) items.set(s.group, [...items.get(s.group) ?? [], s]);
  const known = new Set((run.steps ?? []).map((s) => s.step));
  for (const s of run.steps ?? []) if (!s.group || !known.has(s.group)) addStep(rows, run, s, items, shown, prefix, depth);
}

function addStep(rows: Row[], run: Run, s: Step, items: Map<string, Step[]>, shown: Shown, prefix: string, depth: number): void {
  const key = prefix + s.step, of = items.get(s.step) ?? [], open = shown.unfolded.has(key), bars = barsOf(s);
  const folds = of.length > 0 || s.folded !== undefined;
  rows.push({
    ...empty, key, name: s.itemName ? `${s.step} ${s.itemName}` : s.step, step: s, depth, open, bars, run: prefix && run.run,
    gaps: gapsOf(bars), came: prefix ? [] : shown.came(s.step), strip: stripOf(s),
    fold: s.folded ? phases(s.folded.phases) : folds ? counted(of) : s.child ? "its run" : "",
    items: folds && !open && !s.folded ? of.flatMap((i) => barsOf(i).filter(isAttempt)) : [],
  });
  if (!open) return;
  if (folds) addItems(rows, run, s, of, items, shown, prefix, depth);
  else if (s.child) {
    const child = shown.children.get(key);
    if (child) add(rows, child, shown, `${key}/`, depth + 1);
    else rows.push({ ...empty, key: `${key}/…`, name: "…", step: undefined, depth: depth + 1, bars: [] });
  }
}

// addItems adds the items that are there. Those of a long list that are not have a row together, which asks for them.
function addItems(rows: Row[], run: Run, s: Step, of: Step[], items: Map<string, Step[]>, shown: Shown, prefix: string, depth: number): void {
  const hole = (from: number, to: number) => {
    if (to > from) rows.push({ ...empty, key: `${prefix}${s.step}[${from}…`, name: `${to - from} more`, step: undefined, depth: depth + 1, bars: [], more: { group: s.step, offset: from } });
  };
  let next = 0;
  const all = s.folded ? of.toSorted((a, b) => (a.item ?? 0) - (b.item ?? 0)) : of;
  for (const i of all) {
    if (s.folded && !prefix) hole(next, i.item ?? next);
    addStep(rows, run, i, items, shown, prefix, depth + 1);
    next = (i.item ?? next) + 1;
  }
  if (s.folded && !prefix) hole(next, total(s));
}
