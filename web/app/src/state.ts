// What the whole page shares: the clock, the place, and how things are shown.
import { signal, effect } from "./signal.ts";

export const now = signal(Date.now());
// virtual is where the time of the server stands; null: it goes by itself.
export const virtual = signal<number | null>(null);
// frozen is the instant of the past at which the page shows a run; null: it shows the present.
export const frozen = signal<number | null>(null);
effect(() => { const at = frozen.value ?? virtual.value; if (at !== null) now.value = at; });
setInterval(() => { if (!document.hidden && virtual.value === null && frozen.value === null) now.value = Date.now(); }, 250);

history.scrollRestoration = "manual"; // lists know their places
export const place = signal(location.pathname + location.search);
addEventListener("popstate", () => { place.value = location.pathname + location.search; });

// go shows another page, or the same one with another query.
export function go(to: string, replace = false): void {
  if (to === place.value) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  place.value = to;
  if (!replace) scrollTo(0, 0);
}

// What one has chosen is kept in the browser, where that is allowed.
export const stored = (key: string): string | null => { try { return localStorage.getItem(key); } catch { return null; } };
export const store = (key: string, value: string): void => { try { localStorage.setItem(key, value); } catch { /* private windows */ } };

export const utc = signal(stored("pawl.utc") === "yes");
export const theme = signal(stored("pawl.theme") ?? "system");
effect(() => store("pawl.utc", utc.value ? "yes" : "no"));
effect(() => {
  store("pawl.theme", theme.value);
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
});

export const helpShown = signal(false);
export const goToShown = signal(false);
