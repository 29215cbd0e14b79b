// Replays a run: how it stood after each of its events, as the server folds it.
import { useEffect, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Run } from "./api.ts";
import { getRunAt } from "./api.ts";
import { Problem, Time } from "./parts.tsx";
import { frozen } from "./state.ts";
import { parse } from "./time.ts";

// useAsOf returns a run as it was after one of its events, and lets the clock of the page stand there; 0: now, null. The
// last one stays while the next one is asked for.
export function useAsOf(id: string, event: number): [Run | null, unknown] {
  const [was, setWas] = useState<Run | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    setError(null);
    if (event <= 0) { setWas(null); return; }
    const stop = new AbortController();
    getRunAt(id, event, stop.signal).then(setWas, (e: unknown) => { if (!stop.signal.aborted) setError(e); });
    return () => stop.abort();
  }, [id, event]);
  const shown = event > 0 && was?.run ? was : null;
  useEffect(() => {
    frozen.value = shown?.asOf ? parse(shown.asOf.time) : null;
    return () => { frozen.value = null; };
  }, [shown]);
  return [shown, error];
}

// Replay goes through the events of a run.
export function Replay({ run, events, asked, onEvent, onMove, error }: {
  run: Run; events: number; asked: number; onEvent: (event: number) => void; onMove: (by: number) => void; error: unknown;
}) {
  const e = run.asOf, at = asked || events;
  if (!e) return <button type="button" title="As it was after each event ([ and ])" onClick={() => onMove(-1)}>◀ Replay</button>;
  return (
    <div class="replay" role="group" aria-label="Replay">
      <button type="button" aria-label="One event back" title="[" disabled={at <= 1} onClick={() => onMove(-1)}>◀</button>
      <input type="range" min={1} max={events} value={at} aria-label="Event" aria-valuetext={`${at} of ${events}: ${e.type}`} onInput={(i) => onEvent(Number(i.currentTarget.value))} />
      <button type="button" aria-label="One event on" title="]" disabled={at >= events} onClick={() => onMove(1)}>▶</button>
      <b class="num">{at} of {events}</b> <Time at={e.time} precise />
      <span dir="auto" class="dim">{plain([e.step, e.text || e.type].filter(Boolean).join(": "))}</span>
      <button type="button" onClick={() => onEvent(0)}>Back to now</button>
      <Problem error={error} />
    </div>
  );
}
