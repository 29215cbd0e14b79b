// Keys go to the page that is shown. One that comes before the page is there waits for it: no key is lost, however busy
// the machine is.
import { effect } from "./signal.ts";
import { useLayoutEffect, useRef } from "preact/hooks";
import { elsewhere } from "./parts.tsx";
import { place } from "./state.ts";

// Taker does what a key means to a page. It returns false where it means nothing.
type Taker = (e: KeyboardEvent) => boolean;

const most = 20; // keys that wait

let page: { current: Taker } | null = null; // null: none is there yet
let waiting: KeyboardEvent[] = [];
let replaying = false;

// They were meant for what was shown, unless one of them has led elsewhere: those behind it are meant for that.
effect(() => { void place.value; if (!replaying) waiting = []; });

addEventListener("keydown", (e) => {
  if (elsewhere(e)) return;
  if (!page || replaying) { if (waiting.length < most) waiting.push(e); }
  else if (page.current(e)) e.preventDefault();
});

// replay does what the next key that waits means, once what the one before it meant is drawn.
function replay(): void {
  const e = page ? waiting.shift() : undefined;
  replaying = e !== undefined;
  if (!e) return;
  const form = document.querySelector<HTMLFormElement>("dialog[open] form");
  if (form && e.key === "Enter") form.requestSubmit();
  else if (!page?.current(e) && e.key === "Enter" && document.activeElement instanceof HTMLElement) document.activeElement.click();
  requestAnimationFrame(() => setTimeout(replay));
}

// usePageKeys takes the keys of a page as soon as it is ready for them.
export function usePageKeys(take: Taker, ready = true): void {
  const latest = useRef(take);
  latest.current = take;
  useLayoutEffect(() => {
    if (!ready) return;
    page = latest;
    if (!replaying) replay();
    return () => { if (page === latest) page = null; };
  }, [ready]);
}
