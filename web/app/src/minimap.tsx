// The whole of a timeline as time went, small: one sees how much was cut, and chooses what to look at.
import { useMemo, useRef } from "preact/hooks";
import { even, instantAt, place, type Axis } from "./axis.ts";
import { now } from "./state.ts";
import type { Timeline } from "./timeline.ts";
import { useRange, type Zoom } from "./zoom.ts";

const most = 1500; // attempts that have a mark

interface Props { line: Timeline; whole: Axis; names: number; ended: boolean; zoom: Zoom; from: number; to: number }

export function Minimap({ line, whole, names, ended, zoom, from, to }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const axis = useMemo(() => even(line.from, line.to, whole.width), [line, whole.width]);
  const range = useRange(box, (a, b) => {
    const [first, last] = [place(whole, instantAt(axis, a)), place(whole, instantAt(axis, b))];
    if (b - a > 4) zoom.to(first, last);
    else zoom.move(first - whole.width / zoom.by / 2);
  });
  const marks = useMemo(() => {
    const bars = line.rows.flatMap((r) => [...r.bars, ...r.items]).filter((b) => b.kind === "running" || b.kind === "ahead");
    const each = Math.ceil(bars.length / most);
    return bars.filter((_, i) => i % each === 0);
  }, [line]);
  const brush = zoom.by > 1 ? [place(axis, from), place(axis, to)] : null;
  return (
    <div class="tl-mini" aria-hidden="true">
      <span class="dim meta">true time</span>
      <div ref={box} style={{ width: `${whole.width}px`, left: `${names}px` }} title="Draw a range to look at it">
        <svg width={whole.width} height={16}>
          {marks.map((b, i) => <rect key={i} class={`mark ${b.kind}${b.bad ? " bad" : ""}`} x={place(axis, b.from)} y={3} height={10}
            width={b.open ? 2 : Math.max(place(axis, b.to) - place(axis, b.from), 1.5)} />)}
          {line.lines.map((l, i) => <line key={i} class={`limit${l.first ? " first" : ""}`} x1={place(axis, l.at) - 0.5} x2={place(axis, l.at) - 0.5} y1={1} y2={15} />)}
          {ended ? null : <Present axis={axis} />}
          {[range, brush].map((r, i) => r ? <rect key={i} class="brush" x={r[0]} width={Math.max((r[1] ?? 0) - (r[0] ?? 0), 2)} y={0} height={16} /> : null)}
        </svg>
      </div>
    </div>
  );
}

const Present = ({ axis }: { axis: Axis }) => {
  const x = place(axis, now.value);
  return <line class="present" x1={x} x2={x} y1={0} y2={16} />;
};
