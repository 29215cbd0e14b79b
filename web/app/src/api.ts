// Talks to the server. Nothing here knows of pages.
import { effect, signal } from "./signal.ts";
import { refused, withCaller, type Caller } from "./caller.ts";
import { merged } from "./merged.ts";
import type { components } from "./schema.d.ts";

type Schemas = components["schemas"];
export type Run = Schemas["Run"];
export type Saying = Schemas["Saying"];
export type Part = Schemas["Part"];
export type End = Schemas["End"];
export type RunSummary = Schemas["RunSummary"];
export type Step = Schemas["Step"];
export type Attempt = Schemas["Attempt"];
export type Deadline = Schemas["Deadline"];
export type Page = Schemas["Page"];
export type Count = Schemas["Count"];
export type ForecastRequest = Schemas["ForecastRequest"];
export type OperateBody = Schemas["OperateBody"];
export type Event = Schemas["Event"];
export type Simulated = Schemas["Simulated"];
export type Explained = Schemas["Explained"];
export type PolicyRequest = Schemas["PolicyRequest"];
export type Act = Schemas["Act"];
export type ClockState = Schemas["ClockState"];
export type Schedule = Schemas["Schedule"];
export type Webhook = Schemas["Webhook"];
export type Delivery = Schemas["Delivery"];
export type BulkBody = Schemas["BulkBody"];
export type BulkResult = Schemas["Result"];
export type Change = Schemas["Change"];
export type Token = Schemas["Token"];
export type Audited = Schemas["Audited"];
export type Concern = Schemas["Concern"];
export type Overview = Schemas["Overview"];
export type Sample = Schemas["Sample"];
export type Suggestion = Schemas["Suggestion"];
export type Due = Schemas["Due"];
export type InWeek = Schemas["InWeek"];
export type Hour = Schemas["Hour"];
export type QueueReport = Schemas["QueueReport"];
export type TaskQueue = Schemas["TaskQueue"];
export type LimitUse = Schemas["LimitUse"];
export type CheckedFlow = Schemas["CheckedFlow"];
export type Comparison = Schemas["Comparison"];
export type Artifact = Schemas["Artifact"];
type Problem = Schemas["Problem"];

const base = "/api/v1";

// Failed is an answer that says what is wrong, and what can be done.
export class Failed extends Error {
  readonly status: number;
  readonly hint: string;
  constructor(status: number, text: string, hint = "") {
    super(text);
    this.status = status;
    this.hint = hint;
  }
}

// connected says whether the server answered the last request. While it does not, it is asked again.
export const connected = signal(true);

const again = 2000; // ms between two questions whether it answers again

effect(() => { if (!connected.value) setTimeout(probe, again); });

function probe(): void {
  if (!connected.value) request("/livez", {}).catch(() => setTimeout(probe, again));
}

async function request(path: string, init: RequestInit): Promise<Response> {
  try {
    const answer = await fetch(path, { ...init, headers: withCaller(init.headers) });
    connected.value = true;
    return answer;
  } catch (e) {
    if (!init.signal?.aborted) connected.value = false;
    throw e;
  }
}

async function ask<T>(path: string, init: RequestInit = {}): Promise<T> {
  let answer: Response;
  try {
    answer = await request(base + path, init);
  } catch (e) {
    if (init.signal?.aborted) throw e;
    throw new Failed(0, "the server does not answer", "it is asked again; is it still running?");
  }
  const text = await answer.text();
  if (answer.ok) return (text === "" ? undefined : JSON.parse(text)) as T;
  throw refusal(answer.status, text);
}

// refusal reads why the server says no.
function refusal(status: number, text: string): Failed {
  let p: Partial<Problem> = {};
  try {
    p = JSON.parse(text) as Problem;
  } catch {
    // not from the API itself
  }
  if (status === 401) refused.value = p.detail ?? "this server asks for a token";
  const faults = (p.errors ?? []).map((f) => `${f.parameter ?? f.pointer ?? ""} ${f.detail}`.trim());
  return new Failed(status, [p.detail ?? p.title ?? `the server answers ${status}`, ...faults].join("; "), p.hint);
}

function post<T>(path: string, body: unknown): Promise<T> {
  return ask<T>(path, {
    method: "POST", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() },
  });
}

const runPath = (run: string, ...rest: string[]) => ["/runs", run, ...rest].map((p, i) => i ? encodeURIComponent(p) : p).join("/");

export const listRuns = (query: URLSearchParams, signal?: AbortSignal) => ask<Page>("/runs?" + query, { signal: signal ?? null });
export const countRuns = (query: URLSearchParams) => ask<Count[]>("/counts?" + query);
export const suggest = async (q: string) => (await ask<Suggestion[] | null>("/suggest?" + new URLSearchParams({ q }))) ?? [];
export const getHistogram = (query: string) => ask<Schemas["Histogram"]>("/histogram?" + query);
// Runs come without the items of long lists.
export const getRun = (run: string) => ask<Run>(`${runPath(run)}?folded=true`);
export const getItems = (run: string, q: { of: string; offset?: number; limit: number; phase?: string; order?: string; at?: number }) =>
  ask<Schemas["ItemPage"]>(`${runPath(run, "items")}?${new URLSearchParams(Object.entries(q).map(([k, v]) => [k, String(v)]))}`);
export const compareRuns = (run: string, other: string) =>
  ask<Schemas["Comparison"]>(`${runPath(run, "diff")}?${new URLSearchParams(other ? { with: other } : {})}`);
export const getDefinition = (id: string) => ask<Schemas["Definition"]>(`/definitions/${id}`);
// getRunAt returns a run as it was right after one of its events.
export const getRunAt = (run: string, event: number, signal: AbortSignal) => ask<Run>(`${runPath(run)}?at=${event}&folded=true`, { signal });
// nextRun answers as soon as something has happened to a run after its last event: with the run as it is then.
export const nextRun = async (run: string, last: Run, signal: AbortSignal) =>
  merged(last, await ask<Run>(`${runPath(run)}?wait=30s&changed=true&folded=true&after=${last.events}`, { signal }));
export const forecast = (run: string, q: ForecastRequest) => post<Run>(runPath(run, "forecast"), q);
export const operateRun = (run: string, action: string, body: OperateBody) => post<void>(runPath(run, action), body);
export const operateStep = (run: string, step: string, action: string, body: OperateBody) =>
  post<void>(runPath(run, "steps", step, action), body);
export type RestartBody = Omit<Schemas["RestartBody"], "$schema">;
export const restartRun = (run: string, body: RestartBody = {}) => post<Schemas["Started"]>(runPath(run, "restart"), body);
export const sendEvent = (run: string, name: string, payload: unknown) => post<void>(runPath(run, "events"), { name, payload });
// getLog returns what an attempt has printed from a place on.
export async function getLog(run: string, step: string, attempt: number, from: number, signal: AbortSignal): Promise<{ next: number; bytes: Uint8Array<ArrayBuffer>; marks: Schemas["LogMark"][] }> {
  const part = await ask<Schemas["LogPart"]>(`${runPath(run, "steps", step, "attempts", String(attempt), "log")}?from=${from}`, { signal });
  return { next: part.next, bytes: Uint8Array.from(atob(part.text ?? ""), (c) => c.charCodeAt(0)), marks: part.marks ?? [] };
}
export const listArtifacts = async (run: string) => (await ask<Schemas["Artifacts"]>(runPath(run, "artifacts"))).artifacts ?? [];
// downloadArtifact lets the browser save the content of a file.
export async function downloadArtifact(run: string, f: Artifact): Promise<void> {
  const answer = await request(base + runPath(run, "artifacts", f.sha256), {});
  if (!answer.ok) throw refusal(answer.status, await answer.text());
  saved(await answer.blob(), f.path.split("/").at(-1) ?? "");
}
// saved lets the browser save something as a file.
export function saved(content: Blob, name: string): void {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(content);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
}
// followHistory calls fn with what happens to a run after an event, until fn says that this is enough, the run has ended
// or the signal comes. It reports whether the run has ended.
export async function followHistory(run: string, after: number, fn: (e: Event) => boolean | void, signal: AbortSignal): Promise<boolean> {
  const answer = await request(`${base}${runPath(run)}/events?after=${after}`, { signal });
  if (!answer.ok || !answer.body) throw refusal(answer.status, await answer.text());
  for await (const m of messages(answer.body)) {
    if (m.name !== "") return m.name === "end";
    if (fn(JSON.parse(m.data) as Event)) break;
  }
  return false;
}
// signOut ends the session of the browser.
export async function signOut(): Promise<void> {
  const answer = await request("/logout", { method: "POST" });
  if (!answer.ok) throw refusal(answer.status, await answer.text());
}
export const getVersion = async () => (await (await request("/version", {})).json()) as Schemas["Version"];

interface Message { id: string; name: string; data: string }

// messages reads a stream of server-sent events.
async function* messages(from: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Message> {
  const reader = from.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const m: Message = { id: "", name: "", data: "" };
        for (const line of part.split("\n")) {
          const [, field, text] = /^(id|event|data): ?(.*)$/.exec(line) ?? [];
          if (field === "id") m.id = text ?? "";
          else if (field === "event") m.name = text ?? "";
          else if (field === "data") m.data += text ?? "";
        }
        if (m.name || m.data) yield m;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// changes calls fn with what happens to the runs of the query, from where it left off whenever the connection was lost;
// null: list them again. It returns what ends that.
export function changes(query: URLSearchParams, fn: (c: Change | null) => void): () => void {
  const stop = new AbortController(), signal = stop.signal;
  void (async () => {
    let last = "";
    while (!signal.aborted) {
      try {
        const answer = await request(`${base}/events?${query}`, { signal, headers: last ? { "Last-Event-ID": last } : {} });
        if (!answer.ok || !answer.body) throw refusal(answer.status, await answer.text());
        for await (const m of messages(answer.body)) {
          if (m.name !== "") break; // it ends, or cannot go on
          const c = JSON.parse(m.data) as Change;
          last = m.id || c.id;
          fn(c.run && !c.missed ? c : null);
        }
      } catch (e) {
        if (signal.aborted || e instanceof Failed && e.status >= 400 && e.status < 500) return;
      }
      await new Promise((done) => { setTimeout(done, 1000); });
    }
  })();
  return () => stop.abort();
}

export const explainPolicy = (q: PolicyRequest) => post<Explained>("/policies/explain", q);
export const simulatePolicy = (q: PolicyRequest) => post<Simulated>("/policies/simulate", q);
export const getClock = () => ask<ClockState>("/clock");
export const moveClock = (by: Schemas["ClockMove"]) => post<ClockState>("/clock", by);
export const listFlows = async () => (await ask<Schemas["FlowList"]>("/flows")).flows ?? [];
export const getFlow = (name: string) => ask<{ source?: string; input?: unknown }>(`/flows/${encodeURIComponent(name)}`);
export const startRun = (body: Schemas["StartBody"]) => post<Schemas["Started"]>("/runs", body);
export const getQueues = () => ask<QueueReport>("/queues");
export const getAttention = () => ask<Schemas["Attention"]>("/attention");
export const getOverview = (over: string) => ask<Overview>(`/overview?over=${over}`);
export const listSchedules = async () => (await ask<Schemas["ScheduleList"]>("/schedules")).schedules ?? [];
export const getFirings = (from: string) => ask<Schemas["Week"]>(`/firings?from=${from}`);
export const nextFirings = async (name: string, n: number) =>
  (await ask<Schemas["Firings"]>(`/schedules/${encodeURIComponent(name)}/next?n=${n}`)).firings ?? [];
export const changeSchedule = (name: string, what: string, body: Omit<Schemas["ScheduleChange"], "$schema"> = {}) =>
  post<Schemas["ScheduleChanged"]>(`/schedules/${encodeURIComponent(name)}/${what}`, { ...body, actor: "page" });
export const listWebhooks = async () => (await ask<Schemas["WebhookList"]>("/webhooks")).webhooks ?? [];
export const listDeliveries = async (webhook: string) =>
  (await ask<Schemas["DeliveryPage"]>(`/webhooks/${encodeURIComponent(webhook)}/deliveries?limit=50`)).deliveries ?? [];
export const replayDelivery = (webhook: string, delivery: string) =>
  post<Schemas["Replayed"]>(`/webhooks/${encodeURIComponent(webhook)}/replay`, { delivery });

const hookPath = (webhook: string, ...rest: string[]) => ["/webhooks", webhook, ...rest].map((p, i) => i ? encodeURIComponent(p) : p).join("/");
export const getDelivery = (webhook: string, delivery: string) => ask<Delivery>(hookPath(webhook, "deliveries", delivery));
export const testWebhook = (webhook: string) => post<Delivery>(hookPath(webhook, "test"), {});
export const changeWebhook = (webhook: string, body: Omit<Schemas["WebhookChange"], "$schema">) =>
  ask<Webhook>(hookPath(webhook), { method: "PATCH", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
// rotateSecret has no idempotency key: its answer is a secret, and the server keeps none.
export const rotateSecret = (webhook: string) =>
  ask<Webhook>(hookPath(webhook, "rotate"), { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } });

export const getCaller = () => ask<Caller>("/caller");
export const listTokens = async () => (await ask<Schemas["TokenList"]>("/tokens")).tokens ?? [];
// createToken has no idempotency key: its answer is a secret, and the server keeps none.
export const createToken = (r: Schemas["TokenRequest"]) =>
  ask<Token>("/tokens", { method: "POST", body: JSON.stringify(r), headers: { "Content-Type": "application/json" } });
export const revokeToken = (id: string) => ask<void>(`/tokens/${encodeURIComponent(id)}`, { method: "DELETE" });
export const listAudit = (actor: string, cursor: string) =>
  ask<Schemas["AuditPage"]>("/audit?" + new URLSearchParams({ ...(actor ? { actor } : {}), ...(cursor ? { cursor } : {}) }));
export const validateFlow = (text: string) => post<CheckedFlow>("/flows/validate", { text });
// bulk applies an operation to many runs, and calls fn with what became of each.
export async function bulk(operation: string, body: BulkBody, fn: (r: BulkResult) => void, signal: AbortSignal): Promise<void> {
  const answer = await request(`${base}/bulk/${operation}`, {
    method: "POST", body: JSON.stringify(body), signal,
    headers: { "Content-Type": "application/json" },
  });
  if (!answer.ok || !answer.body) throw refusal(answer.status, await answer.text());
  for await (const m of messages(answer.body)) {
    if (m.name === "end") return;
    if (m.name === "problem") throw refusal(0, m.data);
    if (m.data) fn(JSON.parse(m.data) as BulkResult);
  }
  throw new Failed(0, "the server ended before it had told of all runs");
}
