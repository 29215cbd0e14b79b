// A simulated step as a picture: its attempts, the waits between them, and the deadlines that span them.
import type { Simulated } from "./api.ts";
import { length, readLength } from "./time.ts";
import { ticks } from "./axis.ts";

const width = 900, rowHeight = 22, top = 24, left = 40;

const at = (text: string | undefined): number => text === undefined ? NaN : readLength(text);

export function Outlook({ sim, outage }: { sim: Simulated; outage?: number }) {
  const marks = sim.marks ?? [], attempts = sim.attempts ?? [];
  const last = Math.max(at(sim.at), outage ?? 0, 1, ...attempts.map((a) => at(a.ended) || at(a.at)));
  // A mark that is far would make everything else a dot.
  const to = Math.max(last, ...marks.map((m) => at(m.at)).filter((m) => m <= 3 * last)) * 1.02;
  const x = (ms: number) => left + (ms / to) * (width - left - 10);
  const height = top + attempts.length * rowHeight + 8;
  return (
    <div class="outlook scroll" tabIndex={0} aria-label="Attempts over time">
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${attempts.length} attempts over ${length(last)}`}>
        {outage ? <rect class="outage" x={left} y={top - 6} width={x(outage) - left} height={height - top + 6}><title>the service is down</title></rect> : null}
        {ticks(0, to, 8).map((t) => (
          <g key={t}><line class="grid" x1={x(t)} x2={x(t)} y1={top - 6} y2={height} /><text class="tick" x={x(t) + 2} y={13}>{length(t)}</text></g>
        ))}
        {attempts.map((a, i) => {
          const y = top + i * rowHeight, from = at(a.started ?? a.at), end = at(a.ended ?? a.started ?? a.at);
          const before = attempts[i - 1];
          return (
            <g key={a.attempt} class={`bar ${a.never ? "ahead" : "running"}${a.end && a.end !== "ok" ? " bad" : ""}`}>
              <text class="number" x={left - 8} y={y + 14}>{a.attempt}</text>
              {before ? <rect class="wait" x={x(at(before.ended ?? before.at))} y={y + 8} height={4} width={Math.max(x(at(a.at)) - x(at(before.ended ?? before.at)), 0)} rx={2} /> : null}
              <rect x={x(from)} y={y + 3} height={14} width={Math.max(x(end) - x(from), 4)} rx={3}>
                <title>attempt {a.attempt} {a.never ? `would begin at ${a.at}, but a deadline comes first` : `at ${a.started ?? a.at}: ${a.end ?? "goes on"}${a.limit ? `, by ${a.limit}` : ""}`}</title>
              </rect>
            </g>
          );
        })}
        {marks.filter((m) => at(m.at) <= to).map((m) => <g key={m.limit} class="limit"><line x1={x(at(m.at))} x2={x(at(m.at))} y1={top - 6} y2={height} /><rect class="touch" x={x(at(m.at)) - 5} y={top} width={10} height={height}><title>{m.limit} at {m.at}</title></rect></g>)}
      </svg>
    </div>
  );
}

// verdict says in one sentence how a simulated step ends.
export function verdict(sim: Simulated): string {
  const begun = (sim.attempts ?? []).filter((a) => !a.never).length;
  const n = `${begun} attempt${begun === 1 ? "" : "s"}`, after = length(at(sim.at));
  if (sim.phase === "succeeded") return `Succeeds after ${after} with attempt ${begun}.`;
  if (sim.phase === "backing_off") return `Goes on like this; these are the first ${n}.`;
  return `Gives up after ${after} (${n}): ${(sim.reason ?? sim.phase).replaceAll("_", " ")}.`;
}

// Delays is the picture in numbers, for who cannot see it or wants to copy it.
export function Delays({ sim }: { sim: Simulated }) {
  const attempts = sim.attempts ?? [];
  return (
    <div class="scroll" tabIndex={0} aria-label="Attempts">
      <table class="delays">
        <thead><tr><th>#</th><th>Begins</th><th>After a wait of</th><th>Ends</th><th>How</th></tr></thead>
        <tbody>{attempts.map((a, i) => {
          const before = attempts[i - 1];
          const wait = before ? at(a.at) - at(before.ended ?? before.at) : 0;
          return <tr key={a.attempt} class={a.never ? "dim" : ""}><td class="num">{a.attempt}</td><td class="num">{a.started ?? a.at}</td><td class="num">{before ? length(wait) : ""}</td>
            <td class="num">{a.ended ?? ""}</td><td>{a.never ? "never: a deadline comes first" : `${a.end ?? ""}${a.limit ? `, by ${a.limit}` : ""}`}</td></tr>;
        })}</tbody>
      </table>
    </div>
  );
}
