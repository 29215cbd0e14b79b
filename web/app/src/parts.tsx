// Small parts that several pages use.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failed } from "./api.ts";
import { effect } from "./signal.ts";
import { go, now, utc } from "./state.ts";
import { stateOf, type State } from "./states.ts";
import { instant, length, parse } from "./time.ts";

export function Link(props: { to: string; children: ComponentChildren; class?: string; title?: string; style?: Record<string, string>; current?: boolean }) {
  const click = (e: MouseEvent) => {
    if (e.metaKey || e.ctrlKey || e.shiftKey || e.button !== 0) return;
    e.preventDefault();
    go(props.to);
  };
  return <a href={props.to} class={props.class} title={props.title} style={props.style} aria-current={props.current ? "page" : undefined} onClick={click}>{props.children}</a>;
}

// Chip is a state: its word, its sign and its colour.
export const Chip = ({ state }: { state: State }) =>
  <span class={`chip ${state.tone}`}><span aria-hidden="true">{state.icon}</span> {state.word}</span>;

export const Phase = ({ phase }: { phase: string }) => <Chip state={stateOf(phase)} />;

// Ticking is a text that changes with the clock. Nothing but the text is made anew.
export function Ticking({ of }: { of: (now: number) => string }) {
  const latest = useRef(of);
  latest.current = of;
  const [, setText] = useState("");
  useEffect(() => effect(() => setText(latest.current(now.value))), []);
  return <>{of(now.peek())}</>;
}

// relative says how far an instant is from another one.
export const relative = (at: number, current: number): string =>
  current >= at ? `${length(current - at)} ago` : `in ${length(at - current)}`;

// Time is an instant, or how far it is from now.
export function Time({ at, ago, precise }: { at: string | undefined; ago?: boolean; precise?: boolean }) {
  const t = parse(at);
  if (!Number.isFinite(t)) return null;
  if (!ago) return <time class="num" dateTime={at} title={at}>{instant(t, utc.value, precise)}</time>;
  return <time class="num" dateTime={at} title={instant(t, utc.value, true)}><Ticking key={at} of={(current) => relative(t, current)} /></time>;
}

export function Problem({ error }: { error: unknown }) {
  if (!error) return null;
  const text = error instanceof Error ? error.message : String(error);
  const hint = error instanceof Failed ? error.hint : "";
  return <p class="problem" role="alert">{text}{hint ? <span class="dim"> — {hint}</span> : null}</p>;
}

// Dialog asks for something before it is done.
export function Dialog(props: { title: string; children: ComponentChildren; onClose: () => void }) {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => { ref.current?.showModal(); }, []); // before another key comes
  return (
    <dialog ref={ref} aria-label={props.title} onClose={props.onClose}>
      <h2>{props.title}</h2>
      {props.children}
    </dialog>
  );
}

// Menu opens buttons that few need. It closes when one is pressed, or what is outside of it.
export function Menu({ label, children }: { label: string; children: ComponentChildren }) {
  const ref = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = (e: Event) => {
      const el = ref.current;
      if (el?.open && (e instanceof KeyboardEvent ? e.key === "Escape" : !(e.target instanceof Node && el.contains(e.target)))) el.open = false;
    };
    addEventListener("pointerdown", close);
    addEventListener("keydown", close);
    return () => { removeEventListener("pointerdown", close); removeEventListener("keydown", close); };
  }, []);
  return (
    <details class="menu" ref={ref}>
      <summary class="button">{label} <span aria-hidden="true">▾</span></summary>
      <div class="menu-items" onClick={() => { if (ref.current) ref.current.open = false; }}>{children}</div>
    </details>
  );
}

// Tabs choose one of several views of the same thing. The arrows go from one to the next.
export function Tabs<T extends string>(props: { label: string; all: readonly (readonly [T, string])[]; chosen: T; onChoose: (t: T) => void }) {
  const { all, chosen, onChoose } = props;
  const onKey = (e: KeyboardEvent) => {
    const by = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
    const next = all[(all.findIndex(([t]) => t === chosen) + by + all.length) % all.length]?.[0];
    if (by === 0 || next === undefined) return;
    e.preventDefault();
    onChoose(next);
    const list = e.currentTarget as HTMLElement;
    setTimeout(() => list.querySelector<HTMLElement>("[aria-selected=true]")?.focus());
  };
  return (
    <div class="tabs" role="tablist" aria-label={props.label} onKeyDown={onKey}>
      {all.map(([t, words]) => (
        <button type="button" key={t} role="tab" aria-selected={t === chosen} tabIndex={t === chosen ? 0 : -1} onClick={() => onChoose(t)}>{words}</button>
      ))}
    </div>
  );
}

// elsewhere says whether a key is meant for what has the focus, or for a dialog, and not for the page.
export const elsewhere = (e: KeyboardEvent): boolean => e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]") !== null ||
  e.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName);
