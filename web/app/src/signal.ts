// Values that parts of the page share. Who reads one while it is drawn is drawn anew when it changes.
import { options, type Component, type VNode } from "preact";

export interface Signal<T> {
  value: T;
  peek: () => T; // reads it without being told of changes
}

// Reader is told when what it has read changes.
class Reader {
  private readonly of = new Set<Set<Reader>>();
  constructor(readonly changed: () => void) {}
  reads(all: Set<Reader>): void { all.add(this); this.of.add(all); }
  forget(): void {
    for (const all of this.of) all.delete(this);
    this.of.clear();
  }
}

let reading: Reader | null = null;

export function signal<T>(initial: T): Signal<T> {
  let held = initial;
  const readers = new Set<Reader>();
  return {
    get value() { reading?.reads(readers); return held; },
    set value(to: T) {
      if (Object.is(to, held)) return;
      held = to;
      for (const r of [...readers]) r.changed();
    },
    peek: () => held,
  };
}

// effect does something now, and again whenever what it has read changes. It returns what ends that.
export function effect(fn: () => void): () => void {
  const run = () => {
    const before = reading;
    reader.forget();
    reading = reader;
    try { fn(); } finally { reading = before; }
  };
  const reader = new Reader(run);
  run();
  return () => reader.forget();
}

// What Preact calls before a part is drawn, after that, and when it goes. These names of its own are as its hooks use them.
interface Hooks { __r?: (v: VNode) => void; diffed?: (v: VNode) => void; unmount?: (v: VNode) => void }
type Drawn = VNode & { __c?: Component & { reader?: Reader } };

const hooks = options as Hooks, { __r, diffed, unmount } = hooks;

hooks.__r = (v) => {
  __r?.(v);
  const c = (v as Drawn).__c;
  if (!c) return;
  c.reader ??= new Reader(() => c.setState({}));
  c.reader.forget();
  reading = c.reader;
};
hooks.diffed = (v) => {
  reading = null;
  diffed?.(v);
};
hooks.unmount = (v) => {
  (v as Drawn).__c?.reader?.forget();
  unmount?.(v);
};
