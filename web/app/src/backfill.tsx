// Makes up for the firings of a schedule in a span that have no run: first it tells how many firings that has.
import { useEffect, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import { changeSchedule } from "./api.ts";
import { Dialog, Problem } from "./parts.tsx";
import { now } from "./state.ts";
import { toast } from "./toast.tsx";

const minute = 60_000;

// instantOf writes the minute of an instant, in the past, as the server reads it.
const instantOf = (at: number): string => new Date(Math.min(Math.round(at / minute) * minute, now.peek())).toISOString().replace(/\.\d+/, "");

export function Backfill({ schedule, span, onClose }: { schedule: string; span: [number, number]; onClose: () => void }) {
  const [from, setFrom] = useState(instantOf(span[0])), [before, setBefore] = useState(instantOf(span[1]));
  const [atOnce, setAtOnce] = useState(false);
  const [firings, setFirings] = useState<number | null>(null);
  const [error, setError] = useState<unknown>(null);
  const ask = (dryRun: boolean) => changeSchedule(schedule, "backfill", { from, before, atOnce, dryRun });
  useEffect(() => {
    setFirings(null);
    const wait = setTimeout(() => void ask(true).then((r) => { setFirings(r.firings ?? 0); setError(null); }, setError), 200);
    return () => clearTimeout(wait);
  }, [from, before]);
  const start = () => void ask(false).then((r) => { onClose(); toast(`Firings of ${schedule} to make up for: ${r.firings ?? 0}`); }, setError);
  const field = (name: string, value: string, set: (to: string) => void) =>
    <label>{name} <input value={value} spellcheck={false} onInput={(e) => set(e.currentTarget.value.trim())} /></label>;
  return (
    <Dialog title={`Backfill ${plain(schedule)}`} onClose={onClose}>
      <form onSubmit={(e) => { e.preventDefault(); start(); }}>
        {field("From", from, setFrom)}{field("Before", before, setBefore)}
        <label class="check"><input type="checkbox" checked={atOnce} onChange={(e) => setAtOnce(e.currentTarget.checked)} /> all at once; else each run waits for the one before</label>
        <p class="preview">{firings === null ? "…" : <><b>{firings}</b> firing{firings === 1 ? "" : "s"} in this span. One that has a run gets no other.</>}</p>
        <Problem error={error} />
        <div class="menu"><button type="button" onClick={onClose}>Back</button><button class="main" disabled={!firings}>Start runs</button></div>
      </form>
    </Dialog>
  );
}
