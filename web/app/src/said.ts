// How the sentences of the server read now.
import type { End, Part } from "./api.ts";
import { length, parse } from "./time.ts";

// reads is an instant of a sentence as it reads now.
export function reads(form: string | undefined, at: number, current: number): string {
  switch (form) {
    case "in": return `in ${length(Math.max(at - current, 0))}`;
    case "for": return `for ${length(Math.max(current - at, 0))}`;
    default: return `${length(Math.max(current - at, 0))} ago`;
  }
}

// target is the page of what a piece of a sentence refers to; "": there is none.
export function target(p: Part, run: string): string {
  if (p.step) return `/run/${run}?step=${encodeURIComponent(p.step)}`;
  if (p.run) return `/run/${p.run}`;
  return p.queue ? "/queues" : "";
}

// away says how long an end is away, or what is left of a limit whose clock stands.
export function away(e: End, current: number): string {
  if (e.left) return `${e.left} left, its clock stands`;
  const left = parse(e.at) - current;
  return Number.isFinite(left) ? left >= 0 ? `in ${length(left)}` : `${length(-left)} ago` : "";
}
