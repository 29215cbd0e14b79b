// Draws the bars of one row.
import { place, type Axis } from "./axis.ts";
import { stateOfStep } from "./states.ts";
import { utc } from "./state.ts";
import { instant, length, parse } from "./time.ts";
import { density, stripCells, type Bar, type Cell, type Gap, type Row } from "./timeline.ts";

const middle = 20, high = 16; // of a bar in its row
const perLetter = 6.5; // pixels of a small one

interface Shape { y: number; height: number; least: number }

const thick: Shape = { y: middle - high / 2, height: high, least: 3 };
const shapes: Record<string, Shape> = {
  running: thick, ahead: thick, stopping: thick, waits: { y: middle - 3, height: 6, least: 2 },
  backoff: { y: middle - 1, height: 2, least: 1 }, queued: { y: middle - 2, height: 4, least: 1 },
  late: { y: middle - 2, height: 3, least: 2 }, paused: { y: 3, height: 3, least: 1 },
};

// What waits has its length above it, where there is room.
const told = new Set(["backoff", "waits", "queued"]);

export function Bars({ row, axis }: { row: Row; axis: Axis }) {
  const x = (at: number) => place(axis, at);
  const beats = (row.step?.attempts ?? []).flatMap((a) => a.heartbeats ?? []);
  return (
    <svg width={axis.width} height={34} aria-hidden="true">
      {row.came.map((b, i) => <rect key={i} class={`came ${b.kind}${b.bad ? " bad" : ""}`} x={x(b.from)} y={28} height={4} width={Math.max(x(b.to) - x(b.from), 2)}><title>{b.title}</title></rect>)}
      {row.gaps.map((g, i) => <GapOf key={i} g={g} x={x} />)}
      {row.strip && !row.open ? stripCells(row.strip, x, axis.width).map((c) => <Cells key={c.x} c={c} />) : row.items.length > 0
        ? density(row.items, x, axis.width).map((c) => <Cells key={c.x} c={c} />)
        : row.bars.map((b, i) => <BarOf key={i} b={b} x={x} bad={stateOfStep(row.step).tone === "bad"} />)}
      {beats.map((at) => <circle key={at} class="beat" cx={x(parse(at))} cy={31} r={1.6}><title>heartbeat at {instant(parse(at), utc.value, true)}</title></circle>)}
    </svg>
  );
}

// Cells are a column of the attempts of many items: all of them, and the bad ones in front.
function Cells({ c }: { c: Cell }) {
  const bottom = middle + high / 2, all = Math.max(c.share * high, 3), bad = c.bad > 0 ? Math.max(c.bad * high, 2) : 0;
  return (
    <>
      <rect class="cell" x={c.x} width={c.width} y={bottom - all} height={all} />
      {bad > 0 ? <rect class="cell bad" x={c.x} width={c.width} y={bottom - bad} height={bad} /> : null}
    </>
  );
}

function GapOf({ g, x }: { g: Gap; x: (at: number) => number }) {
  const from = x(g.from), to = x(g.to);
  return (
    <g class="gap">
      <line x1={from} x2={to} y1={middle} y2={middle} />
      <Words from={from} to={to} text={g.text} />
    </g>
  );
}

// Words stand above the middle of a span that has room for them.
function Words({ from, to, text }: { from: number; to: number; text: string }) {
  return text && to - from > text.length * perLetter + 2 ? <text class="told" x={(from + to) / 2} y={10}>{text}</text> : null;
}

function BarOf({ b, x, bad }: { b: Bar; x: (at: number) => number; bad: boolean }) {
  const shape = shapes[b.kind] ?? thick, from = x(b.from);
  const fixed = Math.max(x(b.to) - from, shape.least);
  // What is open grows with the present, without being drawn anew.
  const width = b.open ? { style: { width: `max(${shape.least}px, calc(var(--now) - ${from}px))` } } : { width: fixed };
  const label = b.attempt > 0 && shape === thick && (b.open || fixed > String(b.attempt).length * perLetter + 3) ? String(b.attempt) : "";
  const span = b.open ? "" : ` (${length(b.to - b.from)})`;
  return (
    <g class={`bar ${b.kind}${b.bad || bad && b.kind === "waits" ? " bad" : ""}${b.open ? " open" : ""}`}>
      <rect x={from} y={shape.y} height={shape.height} rx={Math.min(shape.height / 2, 3)} {...width}><title>{b.title}{span}</title></rect>
      {label ? <text x={b.open ? from + 8 : from + fixed / 2} y={middle + 4}>{label}</text> : null}
      {told.has(b.kind) && !b.open ? <Words from={from} to={from + fixed} text={length(b.to - b.from)} /> : null}
    </g>
  );
}
