// Small parts that several pages use.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Failed } from "./api.ts";
import { go, now, utc } from "./state.ts";
import { instant, length, parse } from "./time.ts";

export function Link(props: { to: string; children: ComponentChildren; class?: string; title?: string; style?: Record<string, string> }) {
  const click = (e: MouseEvent) => {
    if (e.metaKey || e.ctrlKey || e.shiftKey || e.button !== 0) return;
    e.preventDefault();
    go(props.to);
  };
  return <a href={props.to} class={props.class} title={props.title} style={props.style} onClick={click}>{props.children}</a>;
}

export const Phase = ({ phase }: { phase: string }) => <span class={`phase ${phase}`}>{phase.replaceAll("_", " ")}</span>;

// Time is an instant; what it is relative to now stands beside it.
export function Time({ at, ago }: { at: string | undefined; ago?: boolean }) {
  const t = parse(at);
  if (!Number.isFinite(t)) return null;
  const text = instant(t, utc.value);
  const diff = now.value - t;
  const rel = diff >= 0 ? `${length(diff)} ago` : `in ${length(-diff)}`;
  return <time dateTime={at} title={`${at} (${rel})`}>{ago ? rel : text}</time>;
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
  useEffect(() => { ref.current?.showModal(); }, []);
  return (
    <dialog ref={ref} aria-label={props.title} onClose={props.onClose}>
      <h2>{props.title}</h2>
      {props.children}
    </dialog>
  );
}
