// Draws a timeline: rows of steps that one can walk through, over an axis that moves with what one looks at. Only the
// rows that can be seen are in the document, and while time goes on only what stands for the present moves.
import { effect } from "./signal.ts";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { instantAt, marked, place, scaled, type Axis, type Piece } from "./axis.ts";
import { Bars } from "./bars.tsx";
import { Minimap } from "./minimap.tsx";
import { useDrag, useRange, useWheel, useZoom, type Zoom } from "./zoom.ts";
import { frozen, go, now, utc } from "./state.ts";
import { stateOfStep } from "./states.ts";
import { length, instant } from "./time.ts";
import { axisOf, cuts, type Line, type Row, type Timeline } from "./timeline.ts";

export const rowHeight = 34;
const axisHeight = 26;
const laneHeight = 18;

interface Props {
  line: Timeline;
  ended: boolean;
  selected: string | null;
  trueTime: boolean;
  onSelect: (step: string) => void;
  onFold: (group: string) => void;
  onTrueTime: (on: boolean) => void;
  onPast: () => void; // the present has left the picture
  onMore?: (group: string, offset: number) => void; // items that the server has are in sight
  span?: string | null; // what is looked at, in ms from the beginning: 1500-2500; null: all
  onSpan?: (span: string | null) => void;
}

// useNow moves what stands for the present without drawing anything else anew.
function useNow(box: { current: HTMLElement | null }, axis: Axis, ended: boolean, onPast: () => void): void {
  useLayoutEffect(() => {
    if (ended) return;
    return effect(() => {
      box.current?.style.setProperty("--now", `${place(axis, now.value)}px`);
      if (now.value > axis.to) setTimeout(onPast);
    });
  }, [axis, ended]);
}

// useSpan shows the span that the address names, and names the one that is shown then.
function useSpan({ span, onSpan, trueTime }: Props, zoom: Zoom, whole: Axis, axis: Axis, left: number, plot: number): void {
  const begun = useRef(false);
  useEffect(() => {
    if (left < 0 || begun.current) return;
    begun.current = true;
    const [from = NaN, to = NaN] = (span ?? "").split("-").map((ms) => place(whole, whole.from + Number(ms)));
    if (to > from) zoom.to(from, to, 0);
  }, [left < 0]);
  useEffect(() => {
    if (!begun.current) return;
    const at = (x: number) => Math.round(instantAt(axis, x) - axis.from);
    const wait = setTimeout(() => onSpan?.(zoom.by > 1 ? `${at(left)}-${at(left + plot)}` : null), 300);
    return () => clearTimeout(wait);
  }, [zoom.by, left, trueTime]);
}

export function Gantt(props: Props) {
  const { line, ended, selected } = props;
  const box = useRef<HTMLDivElement>(null), sheet = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ left: 0, top: 0, width: 0, height: 600 });
  const wide = seen.width || 900, names = wide < 560 ? 112 : 172; // until it is measured
  const plot = Math.max(wide - names - 16, 120);
  const zoom = useZoom(box, plot);
  const whole = useMemo(() => axisOf(line, plot, props.trueTime), [line, plot, props.trueTime]);
  const axis = useMemo(() => scaled(whole, plot * zoom.by), [whole, plot, zoom.by]);
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const measure = () => setSeen({ left: el.scrollLeft, top: el.scrollTop, width: el.clientWidth, height: el.clientHeight });
    const watch = new ResizeObserver(measure);
    watch.observe(el);
    el.addEventListener("scroll", measure, { passive: true });
    return () => { watch.disconnect(); el.removeEventListener("scroll", measure); };
  }, []);
  useSpan(props, zoom, whole, axis, seen.width > 0 ? seen.left : -1, plot);
  useNow(sheet, axis, ended, props.onPast);
  useDrag(box);
  useWheel(box, names, zoom);
  useEffect(() => bringIntoSight(box.current, line.rows.findIndex((r) => r.key === selected)), [selected]);
  const first = Math.max(Math.floor((seen.top - axisHeight) / rowHeight) - 5, 0);
  const last = Math.min(first + Math.ceil(seen.height / rowHeight) + 10, line.rows.length);
  const lanes = line.lines.length * laneHeight, cut = useMemo(() => cuts(line, axis), [line, axis]);
  const fit = (key: string) => {
    const bars = line.rows.find((r) => r.key === key)?.bars ?? [];
    const ends = bars.map((b) => place(whole, b.open ? now.peek() : b.to));
    if (bars.length > 0) zoom.to(Math.min(...bars.map((b) => place(whole, b.from))), Math.max(...ends));
  };
  return (
    <div class="tl" style={{ "--names": `${names}px` }}>
      <Tools zoom={zoom} trueTime={props.trueTime} onTrueTime={props.onTrueTime} />
      <Minimap line={line} whole={whole} names={names} ended={ended} zoom={zoom}
        from={instantAt(axis, seen.left)} to={instantAt(axis, seen.left + plot)} />
      <div class="tl-plot" ref={box} tabIndex={0} role="treegrid" aria-label="Steps over time" aria-rowcount={line.rows.length}
        aria-activedescendant={line.rows.slice(first, last).some((r) => r.key === selected) ? rowId(selected ?? "") : undefined}>
        <div class="tl-sheet" ref={sheet} role="presentation" style={{ width: `${names + axis.width + 16}px` }}>
          {ended ? null : <div class="tl-future" aria-hidden="true" />}
          <Scale axis={axis} cut={cut} names={names} ended={ended} zoom={zoom} />
          <div role="rowgroup" style={{ paddingTop: `${first * rowHeight}px`, paddingBottom: `${(line.rows.length - last) * rowHeight}px` }}>
            {line.rows.slice(first, last).map((row, i) => (
              <RowOf key={row.key} row={row} index={first + i} axis={axis} selected={selected === row.key}
                onSelect={props.onSelect} onFold={props.onFold} onFit={fit} onMore={props.onMore} />
            ))}
          </div>
          <Cuts cut={cut} width={axis.width} height={line.rows.length * rowHeight} />
          <Lines lines={line.lines} rows={line.rows} axis={axis} height={line.rows.length * rowHeight} lanes={lanes} />
        </div>
      </div>
    </div>
  );
}

const rowId = (key: string): string => `row-${key}`;

// bringIntoSight scrolls to a row that the keys have chosen.
function bringIntoSight(el: HTMLElement | null, i: number): void {
  if (!el || i < 0) return;
  const y = axisHeight + i * rowHeight;
  if (y - axisHeight < el.scrollTop) el.scrollTop = y - axisHeight;
  else if (y + rowHeight > el.scrollTop + el.clientHeight) el.scrollTop = y + 2 * rowHeight - el.clientHeight;
}

function Tools({ zoom, trueTime, onTrueTime }: { zoom: Zoom; trueTime: boolean; onTrueTime: (on: boolean) => void }) {
  return (
    <div class="tl-tools">
      <div class="segments" role="group" aria-label="How time is shown">
        <button type="button" aria-pressed={!trueTime} title="Idle time is short (b)" onClick={() => onTrueTime(false)}>Breaks</button>
        <button type="button" aria-pressed={trueTime} title="Time as it went (b)" onClick={() => onTrueTime(true)}>True time</button>
      </div>
      <div class="segments" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom out" disabled={zoom.by <= 1} onClick={() => zoom.at(zoom.by / 2)}>−</button>
        <button type="button" aria-label="Show all" title="Show all (0)" disabled={zoom.by <= 1} onClick={() => zoom.at(1)}>▭</button>
        <button type="button" aria-label="Zoom in" onClick={() => zoom.at(zoom.by * 2)}>+</button>
      </div>
      <span class="dim meta tl-hint">drag over the scale to zoom in, drag below to move</span>
    </div>
  );
}

// Scale is the axis: instants where something begins, and how long the time is that was cut.
function Scale({ axis, cut, names, ended, zoom }: { axis: Axis; cut: Piece[]; names: number; ended: boolean; zoom: Zoom }) {
  const box = useRef<HTMLDivElement>(null);
  const free = (x: number) => x < axis.width - 44 && !cut.some((p) => Math.abs(p.x + p.width / 2 - x - 24) < 50);
  const labels = useMemo(() => { // none is below the word for the present
    const present = ended ? -Infinity : place(axis, now.peek());
    const begin = instant(axis.from, utc.value).length * 6.5; // the first one may have a date
    return marked(axis, 72).filter((t) => Math.abs(t.x + 24 - present) > 48 && (t.x === 0 || t.x > begin && free(t.x)));
  }, [axis, cut, ended]);
  const range = useRange(box, (a, b) => { if (b - a > 4) zoom.to((a - names) / zoom.by, (b - names) / zoom.by); });
  return (
    <div class="tl-scale" ref={box} aria-hidden="true">
      <div class="tl-corner" />
      {labels.map((t) => (
        <span key={t.at} class="tl-tick" style={{ left: `calc(var(--names) + ${t.x}px)` }}>
          {t.x === 0 ? instant(t.at, utc.value) : `+${length(t.at - axis.from)}`}
        </span>
      ))}
      {cut.filter((p, i) => i === 0 || p.x - (cut[i - 1]?.x ?? 0) > 46).map((p) => <span key={p.from} class="tl-tick tl-cut" style={{ left: `calc(var(--names) + ${p.x + p.width / 2}px)` }}>// {coarse(p.to - p.from)}</span>)}
      {ended ? null : <span class="tl-now">{frozen.value === null ? "now" : "then"}</span>}
      {range ? <span class="tl-range" style={{ left: `${range[0]}px`, width: `${range[1] - range[0]}px` }} /> : null}
    </div>
  );
}

// coarse writes a length that is cut with its largest unit.
const coarse = (ms: number) => {
  const unit = [86_400_000, 3_600_000, 60_000, 1000].find((u) => ms >= 2 * u) ?? 1;
  return length(Math.round(ms / unit) * unit);
};

interface RowProps {
  row: Row; index: number; axis: Axis; selected: boolean;
  onSelect: (step: string) => void; onFold: (group: string) => void; onFit: (step: string) => void; onMore: Props["onMore"];
}

function RowOf({ row, index, axis, selected, onSelect, onFold, onFit, onMore }: RowProps) {
  const s = row.step, state = stateOfStep(s), more = row.more;
  useEffect(() => { if (more) onMore?.(more.group, more.offset); }, [more?.group, more?.offset]);
  const tries = s && (s.maxAttempts ?? 0) > 1 && s.attempt ? `${s.counted || s.attempt}/${s.maxAttempts}` : "";
  return (
    <div class={`row${selected ? " selected" : ""}${s ? "" : " planned"}`} role="row" id={rowId(row.key)} aria-rowindex={index + 1}
      aria-level={row.depth + 1} aria-selected={selected} aria-expanded={row.fold ? row.open : undefined}
      onClick={() => { if (row.run && s) go(`/run/${row.run}?step=${encodeURIComponent(s.step)}`); else if (s) onSelect(row.key); }} onDblClick={() => onFit(row.key)}>
      <div class="tl-name" role="rowheader" title={`${row.name}: ${state.word}`} style={{ paddingLeft: `${8 + row.depth * 16}px` }}>
        <span class={`icon ${state.tone}`} aria-hidden="true">{state.icon}</span>
        <bdi>{row.name}</bdi><span class="unseen">: {state.word}</span>
        {tries ? <span class="dim num">{tries}</span> : null}
        {row.fold ? <button type="button" class="fold" tabIndex={-1} aria-label={`${row.open ? "Fold" : "Unfold"} ${row.name}`} title={row.fold}
          onClick={(e) => { e.stopPropagation(); onFold(row.key); }}>{row.open ? "▾" : "▸"}</button> : null}
      </div>
      <div class="tl-cell" role="gridcell">
        <Bars row={row} axis={axis} />
        {row.fold && !row.open && !s?.child ? <span class="tl-count">{row.fold}</span> : null}
        <span class="unseen">{row.bars.slice(-8).map((b) => b.title).join("; ")}</span>
      </div>
    </div>
  );
}

// Cuts are the places at which time is far shorter than it was.
const Cuts = ({ cut, width, height }: { cut: Piece[]; width: number; height: number }) => (
  <svg class="tl-lines" width={width} height={height} aria-hidden="true">
    {cut.map((p) => <path key={p.from} class="cut" d={`M${p.x + p.width / 2 - 2},4${"l4,4l-4,4".repeat(Math.min(Math.floor((height - 8) / 8), 500))}`} />)}
  </svg>
);

// Lines are what can end the run: through all rows, or from the row of the step that it ends. Each has its words below.
function Lines(props: { lines: Line[]; rows: Row[]; axis: Axis; height: number; lanes: number }) {
  const { lines, rows, axis, height, lanes } = props;
  if (lines.length === 0) return null;
  return (
    <>
      <svg class="tl-lines" width={axis.width} height={height + lanes} aria-hidden="true">
        {lines.map((l, i) => {
          const x = place(axis, l.at), row = rows.findIndex((r) => r.key === l.step);
          return <line key={i} class={`limit${l.first ? " first" : ""}`} x1={x} x2={x} y1={Math.max(row, 0) * rowHeight + 4} y2={height + i * laneHeight + 12} />;
        })}
      </svg>
      <div class="tl-ends" style={{ height: `${lanes}px` }} aria-hidden="true">
        {lines.map((l, i) => {
          const x = place(axis, l.at), left = x > axis.width / 2;
          return (
            <span key={i} class={`tl-end${l.first ? " first" : ""}`} style={{ top: `${i * laneHeight}px`,
              [left ? "right" : "left"]: `${(left ? axis.width - x : x) + 4}px` }}>
              <bdi>{l.step ? `${l.step} ` : ""}{l.text}</bdi> · {instant(l.at, utc.value)}
            </span>
          );
        })}
      </div>
    </>
  );
}
