// The clock of pawl dev --virtual-time. It stands until somebody moves it.
import { useEffect, useState } from "preact/hooks";
import type { ClockState } from "./api.ts";
import { getClock, getVersion, moveClock } from "./api.ts";
import { may } from "./caller.ts";
import { Problem } from "./parts.tsx";
import { utc, virtual } from "./state.ts";
import { instant, length, parse } from "./time.ts";

export function Clock() {
  const [state, setState] = useState<ClockState | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const take = (c: ClockState) => { setState(c); virtual.value = parse(c.now); };
  useEffect(() => {
    let timer: ReturnType<typeof setInterval> | undefined;
    let left = false;
    const read = () => getClock().then(take).catch(() => {});
    getVersion().then((v) => {
      if (!v.clockStands || left) return;
      void read();
      timer = setInterval(() => { if (!document.hidden) void read(); }, 1000);
    }, () => {});
    return () => { left = true; clearInterval(timer); };
  }, []);
  if (!state) return null;
  const move = async (by: Parameters<typeof moveClock>[0]) => {
    setBusy(true);
    setError(null);
    try { take(await moveClock(by)); } catch (e) { setError(e); } finally { setBusy(false); }
  };
  const next = parse(state.next);
  return (
    <section class="clock" aria-label="Virtual time">
      <span>Virtual time <b class="num">{instant(parse(state.now), utc.value)}</b>{Number.isFinite(next) ? <span class="dim"> · next timer in {length(next - parse(state.now))}</span> : <span class="dim"> · nothing is due</span>}</span>
      <button type="button" disabled={busy || !may("admin")} onClick={() => void move({ by: "1m" })}>+1 m</button>
      <button type="button" disabled={busy || !may("admin")} onClick={() => void move({ by: "1h" })}>+1 h</button>
      <button type="button" disabled={busy || !may("admin") || !Number.isFinite(next)} onClick={() => void move({ next: true })}>Next timer</button>
      <button type="button" disabled={busy || !may("admin")} onClick={() => void move({ end: true })}>Until the end</button>
      {state.more ? <span class="tag urgent">more is due: press again</span> : null}
      <Problem error={error} />
    </section>
  );
}
