// What waits for workers and what is tried again, by service and by task queue, while one looks.
import { useEffect, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import { getMetrics } from "./api.ts";
import { caller } from "./caller.ts";
import type { Sample } from "./metrics.ts";
import { readMetrics, sums, total, within } from "./metrics.ts";
import { Link, Problem } from "./parts.tsx";
import { length } from "./time.ts";
import { runsOf } from "./query.ts";

const every = 2000, most = 150; // ms between two looks, and how many are kept: five minutes
const lately = 60_000; // what counts as now

// The looks of before stay while one goes to another page and comes back.
let kept: Sample[] = [];
let keptOf = "";

function useSamples(namespace: string): [Sample[], unknown] {
  const [samples, setSamples] = useState<Sample[]>(keptOf === namespace ? kept : []);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    if (keptOf !== namespace) { kept = []; keptOf = namespace; }
    let over = false;
    const read = () => getMetrics().then((text) => {
      if (over) return;
      kept = [...kept, readMetrics(text, Date.now(), namespace)].slice(-most);
      setSamples(kept);
      setError(null);
    }, (e: unknown) => { if (!over) setError(e); });
    void read();
    const timer = setInterval(() => { if (!document.hidden) void read(); }, every);
    return () => { over = true; clearInterval(timer); };
  }, [namespace]);
  return [samples, error];
}

export function Queues() {
  const [samples, error] = useSamples(caller.value?.namespace ?? "");
  const last = samples[samples.length - 1];
  const before = samples.find((s) => last && s.at >= last.at - lately);
  if (!last) return <main><h1>Queues</h1><Problem error={error} />{error ? null : <p class="dim">Loading…</p>}</main>;
  const late = total(last, "pawl_timer_lag_max_seconds") * 1000;
  return (
    <main>
      <h1>Queues</h1>
      <Problem error={error} />
      <dl class="tiles">
        <Tile name="Queued attempts" n={total(last, "pawl_attempts_queued")} />
        <Tile name="Running attempts" n={total(last, "pawl_attempts_running")} />
        <Tile name="Runs in memory" n={total(last, "pawl_runs_loaded")} />
        <Tile name="Set aside (errors)" n={total(last, "pawl_runs_set_aside")} bad />
        <div><dt>the latest timer</dt><dd>{length(late)} late</dd></div>
      </dl>
      <Pressure samples={samples} last={last} before={before} />
      <TaskQueues last={last} before={before} />
    </main>
  );
}

const Tile = ({ name, n, bad }: { name: string; n: number; bad?: boolean }) => <div class={bad && n > 0 ? "urgent" : ""}><dt>{name}</dt><dd>{n}</dd></div>;

const aMinute = (n: number, from: Sample | undefined, to: Sample) => from && to.at > from.at ? n / (to.at - from.at) * 60_000 : 0;

const rate = (n: number) => n === 0 ? "0" : n < 10 ? n.toFixed(1) : Math.round(n).toString();

function Pressure({ samples, last, before }: { samples: Sample[]; last: Sample; before: Sample | undefined }) {
  const retries = sums(last, "pawl_retries_total", "service"), attempts = sums(last, "pawl_attempts_total", "service");
  const old = sums(before, "pawl_retries_total", "service"), oldAttempts = sums(before, "pawl_attempts_total", "service");
  const history = samples.map((s) => sums(s, "pawl_retries_total", "service"));
  const rows = [...attempts.keys()].map((name) => {
    const n = (retries.get(name) ?? 0) - (old.get(name) ?? 0), of = (attempts.get(name) ?? 0) - (oldAttempts.get(name) ?? 0);
    const counts = history.slice(1).map((h, i) => Math.max((h.get(name) ?? 0) - (history[i]?.get(name) ?? 0), 0));
    return { name, rate: aMinute(n, before, last), share: of > 0 ? n / of : 0, all: retries.get(name) ?? 0, counts };
  }).sort((a, b) => b.rate - a.rate || b.all - a.all);
  return (
    <section>
      <h2>Retries by service</h2>
      {rows.length === 0 ? <p class="empty">No attempt has ended since the server began.</p> : (
        <div class="scroll" tabIndex={0} aria-label="Retries by service by service">
          <table class="pressure">
            <thead><tr><th>Service</th><th>Retries a minute</th><th>Share</th><th>Last 5 min</th><th>Since start</th></tr></thead>
            <tbody>{rows.map((r) => (
              <tr key={r.name}><td>{r.name ? <bdi>{plain(r.name)}</bdi> : <span class="dim">no service</span>}</td><td class="num">{rate(r.rate)}</td>
                <td class="num">{Math.round(r.share * 100)} %</td><td><Bars counts={r.counts} name={r.name} /></td><td class="num">{r.all}</td></tr>
            ))}</tbody>
          </table>
        </div>
      )}
      <p><Link to={runsOf("is:retrying")}>Runs that retry now</Link></p>
    </section>
  );
}

// Bars are counts over time, the newest at the right.
function Bars({ counts, name }: { counts: number[]; name: string }) {
  const top = Math.max(...counts, 1), all = counts.reduce((a, b) => a + b, 0);
  return (
    <svg class="counts" viewBox={`0 0 ${most * 2} 24`} preserveAspectRatio="none" role="img" aria-label={`${name || "no service"}: ${all} retries in ${length(counts.length * every)}`}>
      {counts.map((n, i) => n > 0 ? <rect key={i} x={(most - counts.length + i) * 2} y={24 - Math.max(n / top * 24, 2)} width={2} height={Math.max(n / top * 24, 2)} /> : null)}
    </svg>
  );
}

const waits = (seconds: number) => Number.isNaN(seconds) ? "" : seconds === Infinity ? "longer" : length(seconds * 1000);

// slots says how many attempts could begin: of built-in workers by their kinds.
function slots(last: Sample, queue: string): string {
  const free = sums(last, "pawl_queue_free_slots", "type", { queue });
  if (free.size === 0) return "any number";
  return queue ? `${[...free.values()].reduce((a, b) => Math.max(a, b), 0)}` : [...free].map(([type, n]) => `${type} ${n}`).join(", ");
}

function TaskQueues({ last, before }: { last: Sample; before: Sample | undefined }) {
  const metric = "pawl_schedule_to_start_seconds";
  const begun = sums(last, `${metric}_count`, "queue"), old = sums(before, `${metric}_count`, "queue");
  const depth = sums(last, "pawl_queue_depth", "queue"), running = sums(last, "pawl_queue_running", "queue");
  const held = sums(last, "pawl_attempts_held_total", "by");
  const names = [...new Set([...depth.keys(), ...begun.keys()])];
  if (names.length === 0) return null;
  names.sort((a, b) => (depth.get(b) ?? 0) - (depth.get(a) ?? 0) || (begun.get(b) ?? 0) - (begun.get(a) ?? 0));
  return (
    <section>
      <h2>Task queues</h2>
      <div class="scroll" tabIndex={0} aria-label="Task queues">
        <table class="queues">
          <thead><tr><th>Queue</th><th>Waiting</th><th>Running</th><th>Free slots</th><th>Attempts a minute</th><th>Wait p50</th><th>Wait p95</th><th>Since start</th></tr></thead>
          <tbody>{names.map((name) => {
            const n = begun.get(name) ?? 0, moved = n - (old.get(name) ?? 0), from = moved > 0 ? before : undefined; // where nothing happens now: of all time
            const waiting = depth.get(name) ?? 0, none = waiting > 0 && slots(last, name) === "0" && !running.get(name);
            return <tr key={name}><td>{name ? <bdi>{plain(name)}</bdi> : <span class="dim">built-in workers</span>}</td>
              <td class="num">{waiting}</td><td class="num">{running.get(name) ?? 0}</td><td class={none ? "urgent" : ""}>{none ? "no worker" : <bdi>{plain(slots(last, name))}</bdi>}</td>
              <td class="num">{rate(aMinute(moved, before, last))}</td>
              <td class="num">{waits(within(last, from, metric, "queue", name, 0.5))}</td><td class="num">{waits(within(last, from, metric, "queue", name, 0.95))}</td><td class="num">{n}</td></tr>;
          })}</tbody>
        </table>
      </div>
      {held.size > 0 ? <p>Held by limits since start: {[...held].map(([by, n]) => <span class="tag" key={by}><bdi>{plain(by)}</bdi> {n}</span>)}</p> : null}
    </section>
  );
}
