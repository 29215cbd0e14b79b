// Draws a timeline. Only the rows that can be seen are in the document.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Bar, Line, Row, Timeline } from "./timeline.ts";
import { ticks } from "./timeline.ts";
import { length, parse } from "./time.ts";
import { instant } from "./time.ts";
import { utc } from "./state.ts";

const rowHeight = 26;
const axisHeight = 24;
const nameWidth = 190;

interface Props {
  line: Timeline;
  now: number;
  ended: boolean;
  selected: string | null;
  onSelect: (step: string) => void;
  onFold: (group: string) => void;
}

// usePan lets one drag what scrolls with the mouse; fingers scroll by themselves. A drag is no click.
function usePan(box: { current: HTMLDivElement | null }, onPan: () => void): void {
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    let from: { x: number; y: number; left: number; top: number } | null = null, moved = false;
    const down = (e: PointerEvent) => {
      moved = false;
      if (e.button === 0 && e.pointerType === "mouse") from = { x: e.clientX, y: e.clientY, left: el.scrollLeft, top: el.scrollTop };
    };
    const move = (e: PointerEvent) => {
      if (!from || !moved && Math.hypot(e.clientX - from.x, e.clientY - from.y) < 5) return;
      if (!moved) { moved = true; el.setPointerCapture(e.pointerId); onPan(); }
      el.scrollLeft = from.left + from.x - e.clientX;
      el.scrollTop = from.top + from.y - e.clientY;
    };
    const up = () => { from = null; };
    const click = (e: MouseEvent) => { if (moved) { e.stopPropagation(); moved = false; } };
    el.addEventListener("pointerdown", down);
    el.addEventListener("pointermove", move);
    el.addEventListener("pointerup", up);
    el.addEventListener("pointercancel", up);
    el.addEventListener("click", click, true);
    return () => {
      el.removeEventListener("pointerdown", down);
      el.removeEventListener("pointermove", move);
      el.removeEventListener("pointerup", up);
      el.removeEventListener("pointercancel", up);
      el.removeEventListener("click", click, true);
    };
  }, []);
}

export function Gantt({ line, now, ended, selected, onSelect, onFold }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(900);
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  const [zoom, setZoom] = useState(1);
  const [follow, setFollow] = useState(true);
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const measure = () => { setWidth(el.clientWidth); setSeen({ top: el.scrollTop, height: el.clientHeight }); };
    const watch = new ResizeObserver(measure);
    watch.observe(el);
    el.addEventListener("scroll", measure, { passive: true });
    return () => { watch.disconnect(); el.removeEventListener("scroll", measure); };
  }, []);
  usePan(box, () => setFollow(false));
  const scale = (to: number) => { // what is in the middle stays there
    const el = box.current;
    if (!el) return;
    const middle = el.clientWidth / 2;
    left.current = (el.scrollLeft + middle - names) * (to / zoom) + names - middle;
    setZoom(to);
  };
  const left = useRef<number | null>(null);
  useLayoutEffect(() => {
    if (box.current && left.current !== null) box.current.scrollLeft = left.current;
    left.current = null;
  }, [zoom]);
  const names = width < 560 ? 96 : nameWidth;
  const plot = Math.max((width - names - 12) * zoom, 120);
  const span = Math.max(line.to - line.from, 1);
  const x = (at: number) => names + ((at - line.from) / span) * plot;
  const first = Math.max(Math.floor((seen.top - axisHeight) / rowHeight) - 5, 0);
  const last = Math.min(first + Math.ceil(seen.height / rowHeight) + 10, line.rows.length);
  const height = axisHeight + line.rows.length * rowHeight + 6;
  const right = names + plot;
  useEffect(() => { // what is now stays in sight while one follows
    const el = box.current;
    if (el && follow && !ended && zoom > 1) el.scrollLeft = x(now) - el.clientWidth * 0.7;
  }, [now, follow, zoom, ended]);
  useEffect(() => { // a step that the keys have chosen comes into sight
    const el = box.current, i = line.rows.findIndex((r) => r.step.step === selected);
    if (!el || i < 0) return;
    const y = axisHeight + i * rowHeight;
    if (y < el.scrollTop) el.scrollTop = y - rowHeight;
    else if (y + rowHeight > el.scrollTop + el.clientHeight) el.scrollTop = y + 2 * rowHeight - el.clientHeight;
  }, [selected]);
  return (
    <section class="gantt" aria-label="Timeline">
      <div class="tools">
        <button type="button" onClick={() => scale(Math.min(zoom * 2, 64))} aria-label="Zoom in">+</button>
        <button type="button" onClick={() => scale(Math.max(zoom / 2, 1))} aria-label="Zoom out" disabled={zoom === 1}>−</button>
        {ended ? null : <label class="check"><input type="checkbox" checked={follow} onChange={(e) => setFollow(e.currentTarget.checked)} /> follow</label>}
        <span class="keys dim">
          <i class="key queued" /> queued <i class="key running" /> running <i class="key backoff" /> backoff
          {" "}<i class="key waits" /> waits <i class="key paused" /> paused <i class="key stopping" /> stopping <i class="key ahead" /> to come, if it fails <i class="key beat" /> heartbeat
        </span>
      </div>
      <div class="plot" ref={box} tabIndex={0} aria-label="Steps over time">
        <svg width={right + 12} height={height} role="img" aria-label={`${line.rows.length} steps over ${length(line.to - line.from)}`}>
          <defs>
            <pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="3" height="6" class="stripe" />
            </pattern>
          </defs>
          {ticks(line.from, line.to, Math.max(Math.floor(plot / 110), 2)).map((t) => (
            <g key={t.at}>
              <line class="grid" x1={x(t.at)} x2={x(t.at)} y1={axisHeight} y2={height} />
              <text class="tick" x={x(t.at) + 3} y={14}>
                {t.at === line.from ? instant(t.at, utc.value) : `+${length(t.at - line.from)}`}
              </text>
            </g>
          ))}
          {line.rows.slice(first, last).map((row, i) => (
            <RowOf key={row.step.id} row={row} y={axisHeight + (first + i) * rowHeight} x={x} names={names} right={right}
              selected={selected === row.step.step} onSelect={onSelect} onFold={onFold} />
          ))}
          {line.lines.map((l, i) => <Limit key={i} l={l} x={x} y1={axisHeight - 8} y2={height} right={right} run />)}
          {ended ? null : <line class="now" x1={x(now)} x2={x(now)} y1={axisHeight - 8} y2={height}><title>now</title></line>}
        </svg>
      </div>
    </section>
  );
}

function RowOf(props: {
  row: Row; y: number; x: (at: number) => number; names: number; right: number; selected: boolean;
  onSelect: (step: string) => void; onFold: (group: string) => void;
}) {
  const { row, y, x, names } = props;
  const s = row.step;
  const room = Math.floor((names - (row.fold ? 30 : 14) - row.depth * 14) / 7.2);
  const whole = s.itemName ? `${s.step} ${s.itemName}` : s.step;
  const name = whole.length > room ? whole.slice(0, Math.max(room - 1, 1)) + "…" : whole;
  const select = () => props.onSelect(s.step);
  return (
    <g class={`row${props.selected ? " selected" : ""}`} onClick={select}>
      <rect class="back" x={0} y={y} width={props.right + 12} height={rowHeight} />
      <text class={`name ${s.phase}`} x={8 + row.depth * 14} y={y + 17}>{name}<title>{whole}: {s.phase.replaceAll("_", " ")}</title></text>
      {row.fold ? <g class="fold" onClick={(e) => { e.stopPropagation(); props.onFold(s.step); }}>
        <rect class="touch" x={names - 20} y={y} width={20} height={rowHeight} /><text x={names - 15} y={y + 17}>{row.open ? "▾" : "▸"}<title>{row.open ? "fold" : "unfold"}: {row.fold}</title></text></g> : null}
      {row.bars.map((b, i) => <BarOf key={i} b={b} x={x} y={y} />)}
      {(s.attempts ?? []).flatMap((a) => a.heartbeats ?? []).map((at) => (
        <circle key={at} class="beat" cx={x(parse(at))} cy={y + 23} r={1.6}><title>heartbeat at {instant(parse(at), utc.value)}</title></circle>
      ))}
      {row.fold && !row.open ? <text class="count" x={x(row.bars[0]?.from ?? NaN) + 6} y={y + 17}>{row.fold}</text> : null}
      {row.lines.map((l, i) => <Limit key={i} l={l} x={x} y1={y + 2} y2={y + rowHeight - 2} right={props.right} />)}
    </g>
  );
}

function BarOf({ b, x, y }: { b: Bar; x: (at: number) => number; y: number }) {
  const from = x(b.from);
  const width = Math.max(x(b.to) - from, b.kind === "running" || b.kind === "ahead" ? 3 : 1);
  const title = `${b.title} (${length(b.to - b.from)})`;
  const label = b.attempt > 0 && (b.kind === "running" || b.kind === "ahead") && width > 16 ? String(b.attempt) : "";
  const thin = b.kind === "backoff" || b.kind === "queued" || b.kind === "paused" || b.kind === "late";
  return (
    <g class={`bar ${b.kind}${b.bad ? " bad" : ""}${b.open ? " open" : ""}`}>
      {thin
        ? <rect x={from} y={b.kind === "paused" ? y + 1 : y + 11} width={width} height={4} rx={2}><title>{title}</title></rect>
        : <rect x={from} y={y + 5} width={width} height={16} rx={3}><title>{title}</title></rect>}
      {label ? <text x={from + width / 2} y={y + 17}>{label}</text> : null}
    </g>
  );
}

function Limit({ l, x, y1, y2, right, run }: {
  l: Line; x: (at: number) => number; y1: number; y2: number; right: number; run?: boolean;
}) {
  const at = x(l.at);
  if (!Number.isFinite(at) || at > right + 8) return null;
  return (
    <g class={`limit${run ? " ofrun" : ""}${l.givesUp ? " givesup" : ""}`}>
      <line x1={at} x2={at} y1={y1} y2={y2} />
      <rect class="touch" x={at - 5} y={y1} width={10} height={y2 - y1}><title>{l.title}, at {instant(l.at, utc.value)}</title></rect>
    </g>
  );
}
