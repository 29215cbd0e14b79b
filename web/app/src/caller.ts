// Who looks at the page: the token that it shows to the server, and what the server lets its bearer do.
import { signal } from "./signal.ts";
import type { components } from "./schema.d.ts";

export type Caller = components["schemas"]["Caller"];

// A token is kept as long as the tab is open, and is never in an address.
const kept = (key: string) => { try { return sessionStorage.getItem(key) ?? ""; } catch { return ""; } };
const keep = (key: string, value: string) => {
  try { if (value) sessionStorage.setItem(key, value); else sessionStorage.removeItem(key); } catch { /* private windows */ }
};

let token = kept("pawl.token");
let namespace = kept("pawl.namespace");

// caller is who the server takes the page for; null: it has not said so yet.
export const caller = signal<Caller | null>(null);
// refused says why the server asks for a token; null: it does not.
export const refused = signal<string | null>(null);

export function show(text: string): void { keep("pawl.token", token = text); }
// shows reports whether the page shows a token. Else the browser has a session, or the server asks for nothing.
export const shows = (): boolean => token !== "";
export function choose(name: string): void { keep("pawl.namespace", namespace = name); }

// withCaller adds to the headers of a request who asks, and for which namespace.
export function withCaller(headers: HeadersInit | undefined): Headers {
  const all = new Headers(headers);
  if (token) all.set("Authorization", `Bearer ${token}`);
  if (namespace) all.set("Pawl-Namespace", namespace);
  return all;
}

const roles = ["read", "approve", "operate", "admin"];

// may reports whether the caller may do what asks for a role.
export const may = (role: string): boolean => caller.value === null || roles.indexOf(caller.value.role) >= roles.indexOf(role);
