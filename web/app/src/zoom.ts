// How one moves over a timeline: what is in sight, dragging, and the wheel.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const most = 256;

export interface Zoom {
  by: number; // 1: all is in sight
  at: (by: number, x?: number) => void; // zooms; what is at a place of the plot, or in its middle, stays there
  to: (from: number, to: number, margin?: number) => void; // shows what lies between two places of the whole axis
  move: (from: number) => void; // begins at a place of the whole axis
}

export function useZoom(box: { current: HTMLElement | null }, plot: number): Zoom {
  const [by, setBy] = useState(1);
  const left = useRef<number | null>(null);
  const set = (to: number, scroll: number) => { left.current = scroll; setBy(Math.min(Math.max(to, 1), most)); };
  useLayoutEffect(() => {
    if (box.current && left.current !== null) box.current.scrollLeft = left.current;
    left.current = null;
  });
  return {
    by,
    at: (to, x = plot / 2) => {
      const next = Math.min(Math.max(to, 1), most);
      set(next, ((box.current?.scrollLeft ?? 0) + x) * (next / by) - x);
    },
    to: (from, to, margin = 12) => {
      const next = Math.min(plot / Math.max(to - from + 2 * margin, 1), most);
      set(next, Math.max((from - margin) * next, 0));
    },
    move: (from) => { if (box.current) box.current.scrollLeft = from * by; },
  };
}

// listens calls functions for events of an element. It returns what ends that.
function listens(el: HTMLElement, all: [string, (e: never) => void, boolean?][]): () => void {
  for (const [name, fn, capture] of all) el.addEventListener(name, fn as EventListener, capture);
  return () => { for (const [name, fn, capture] of all) el.removeEventListener(name, fn as EventListener, capture); };
}

// useDrag lets one move what scrolls with the mouse; fingers scroll by themselves. A drag is no click.
export function useDrag(box: { current: HTMLElement | null }): void {
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
      if (!moved) { moved = true; el.setPointerCapture(e.pointerId); }
      el.scrollLeft = from.left + from.x - e.clientX;
      el.scrollTop = from.top + from.y - e.clientY;
    };
    const up = () => { from = null; };
    const click = (e: MouseEvent) => { if (moved) { e.stopPropagation(); moved = false; } };
    return listens(el, [["pointerdown", down], ["pointermove", move], ["pointerup", up], ["pointercancel", up], ["click", click, true]]);
  }, []);
}

// useWheel zooms at the pointer: over the scale at once, below it with a key, so that a page that scrolls goes on.
export function useWheel(box: { current: HTMLElement | null }, names: number, zoom: Zoom): void {
  const latest = useRef(zoom);
  latest.current = zoom;
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const wheel = (e: WheelEvent) => {
      const onScale = e.target instanceof Element && e.target.closest(".tl-scale") !== null;
      if (!e.ctrlKey && !e.metaKey && !onScale) return;
      e.preventDefault();
      const x = e.clientX - el.getBoundingClientRect().left - names;
      latest.current.at(latest.current.by * 2 ** (-e.deltaY / 200), Math.max(x, 0));
    };
    el.addEventListener("wheel", wheel, { passive: false });
    return () => el.removeEventListener("wheel", wheel);
  }, [names]);
}

// useRange tells which part of an element one has drawn a range over, in pixels of it; a click is a range of no width.
export function useRange(box: { current: HTMLElement | null }, onRange: (from: number, to: number) => void): [number, number] | null {
  const [range, setRange] = useState<[number, number] | null>(null);
  const latest = useRef(onRange);
  latest.current = onRange;
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    let from = NaN;
    const at = (e: PointerEvent) => e.clientX - el.getBoundingClientRect().left;
    const down = (e: PointerEvent) => {
      if (e.button !== 0 || e.target instanceof Element && e.target.closest("a")) return;
      e.stopPropagation(); // it does not drag what is below
      from = at(e);
      el.setPointerCapture(e.pointerId);
    };
    const move = (e: PointerEvent) => { if (Number.isFinite(from)) setRange([Math.min(from, at(e)), Math.max(from, at(e))]); };
    const up = (e: PointerEvent) => {
      const began = from;
      cancel();
      if (Number.isFinite(began)) latest.current(Math.min(began, at(e)), Math.max(began, at(e)));
    };
    const cancel = () => { from = NaN; setRange(null); };
    return listens(el, [["pointerdown", down], ["pointermove", move], ["pointerup", up], ["pointercancel", cancel]]);
  }, []);
  return range;
}
