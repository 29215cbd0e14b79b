// Follows the child runs whose steps are shown in the timeline of the run above them.
import { useEffect } from "preact/hooks";
import type { Run } from "./api.ts";
import { useRun } from "./userun.ts";

function Child({ id, row, onRun }: { id: string; row: string; onRun: (row: string, run: Run | null) => void }) {
  const [run] = useRun(id);
  useEffect(() => onRun(row, run), [run]);
  useEffect(() => () => onRun(row, null), []);
  return null;
}

// Inlined follows the child runs of the rows that are unfolded, also those of child runs.
export function Inlined({ run, unfolded, runs, onRun }: {
  run: Run; unfolded: ReadonlySet<string>; runs: ReadonlyMap<string, Run>; onRun: (row: string, run: Run | null) => void;
}) {
  const all = [["", run] as const, ...[...runs].map(([row, r]) => [`${row}/`, r] as const)];
  return <>{all.flatMap(([prefix, r]) => (r.steps ?? []).filter((s) => s.child && unfolded.has(prefix + s.step)).map((s) =>
    <Child key={`${prefix}${s.step} ${s.child}`} id={s.child ?? ""} row={prefix + s.step} onRun={onRun} />))}</>;
}
