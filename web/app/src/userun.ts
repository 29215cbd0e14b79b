// Follows one run, for the page of the run and for those of the runs above it.
import { useEffect, useState } from "preact/hooks";
import type { Run } from "./api.ts";
import { getRun, nextRun } from "./api.ts";
import { isClosed } from "./timeline.ts";

// useRun follows a run: it asks for it again as soon as something has happened to it.
export function useRun(id: string): [Run | null, unknown] {
  const [run, setRun] = useState<Run | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const stop = new AbortController();
    setRun(null);
    setError(null);
    void (async () => {
      let last: Run | null = null;
      while (!stop.signal.aborted) {
        try {
          const r: Run = last ? await nextRun(id, last, stop.signal) : await getRun(id);
          if (stop.signal.aborted) return;
          last = r;
          setRun(r);
          setError(null);
          // Once it has ended, only an operator makes something happen to it again.
          await pause(isClosed(r.phase) ? 3000 : 150, stop.signal);
        } catch (e) {
          if (stop.signal.aborted) return;
          setError(e);
          if ([401, 403, 404].includes((e as { status?: number }).status ?? 0)) return;
          await pause(2000, stop.signal);
        }
      }
    })();
    return () => stop.abort();
  }, [id]);
  return [run, error];
}

const pause = (ms: number, signal: AbortSignal) => new Promise<void>((done) => {
  const t = setTimeout(done, ms);
  signal.addEventListener("abort", () => { clearTimeout(t); done(); }, { once: true });
});
