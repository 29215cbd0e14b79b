// What waits for workers, what limits hold back, and who works.
import type { ComponentChildren } from "preact";
import { plain } from "./ansi.ts";
import type { LimitUse, QueueReport, TaskQueue } from "./api.ts";
import { getQueues } from "./api.ts";
import { useAsked } from "./asked.ts";
import { Link, Problem, Time } from "./parts.tsx";
import { runsOf } from "./query.ts";
import { Says } from "./says.tsx";
import { length, readLength } from "./time.ts";

const every = 2000; // ms between two looks

export function Queues() {
  const [got, error] = useAsked(getQueues, "", every);
  if (!got) return <main><h1>Queues</h1><Problem error={error} />{error ? null : <p class="dim">Loading…</p>}</main>;
  return (
    <main>
      <h1>Queues</h1>
      <Problem error={error} />
      <dl class="tiles">
        <Tile name="Queued attempts" n={got.queued} />
        <Tile name="Running attempts" n={got.running} />
        <Tile name="Runs in memory" n={got.loaded} />
        <Tile name="Set aside (errors)" n={got.setAside} bad />
        <div><dt>Timer lag, max</dt><dd>{length(readLength(got.late) || 0)}</dd></div>
      </dl>
      <TaskQueues all={got.queues ?? []} />
      <Limits all={got.limits ?? []} />
      <Services got={got} />
      <Workers got={got} />
    </main>
  );
}

const Tile = ({ name, n, bad }: { name: string; n: number; bad?: boolean }) => <div class={bad && n > 0 ? "urgent" : ""}><dt>{name}</dt><dd>{n.toLocaleString("en")}</dd></div>;

// Table is a table that scrolls by itself where it is too wide.
const Table = ({ name, kind, head, children }: { name: string; kind: string; head: string[]; children: ComponentChildren }) => (
  <section>
    <h2>{name}</h2>
    <div class="scroll" tabIndex={0} aria-label={name}><table class={kind}><thead><tr>{head.map((h) => <th key={h}>{h}</th>)}</tr></thead><tbody>{children}</tbody></table></div>
  </section>
);

const span = (text: string | undefined) => length(readLength(text));

function TaskQueues({ all }: { all: TaskQueue[] }) {
  if (all.length === 0) return <p class="empty">No attempt has waited for a worker since the server began.</p>;
  return (
    <Table name="Task queues" kind="queues" head={["Queue", "Type", "Waiting", "Oldest", "Running", "Free slots", "Attempts a minute", "Wait p50", "Wait p95"]}>
      {all.map((q) => (
        <tr key={`${q.queue} ${q.type}`}>
          <td>{q.queue ? <bdi>{plain(q.queue)}</bdi> : <span class="dim">built-in workers</span>}</td><td><bdi>{plain(q.type)}</bdi></td>
          <td class="num">{q.waiting}</td><td>{q.oldestRun ? <Link to={`/run/${q.oldestRun}`}><Time at={q.oldest} ago /></Link> : null}</td>
          <td class="num">{q.running}</td><td class={q.unserved ? "urgent" : "num"}>{q.unserved ? "no worker" : q.free ?? "any number"}</td>
          <td class="num">{q.perMinute}</td><td class="num">{span(q.waitP50)}</td><td class="num">{span(q.waitP95)}</td>
        </tr>
      ))}
    </Table>
  );
}

const kinds: Record<LimitUse["kind"], string> = { runs: "queue of runs", queue: "task queue", service: "service" };

// Limits are what queues and services may use, and how much of it they do.
function Limits({ all }: { all: LimitUse[] }) {
  if (all.length === 0) return null;
  return (
    <section>
      <h2>Limits</h2>
      <ul class="limits">{all.map((l) => (
        <li key={l.kind + l.name} class="card">
          <h3><bdi>{plain(l.name)}</bdi> <span class="dim">{kinds[l.kind]}</span> {l.breaker?.open ? <span class="tag urgent">breaker open</span> : null}</h3>
          <p class={l.breaker?.open ? "bad" : "dim"}><Says says={l.says} run="" /></p>
          {(l.uses ?? []).map((u) => (
            <p key={u.limit} class="use"><span>{u.limit.replace("_", " ")}</span>
              {u.limit.includes("key") ? <span class="dim">at most {u.most} of a key{u.per ? ` in ${span(u.per)}` : ""}</span> : <>
                <span class="meter" role="meter" aria-label={`${u.limit} of ${l.name}`} aria-valuemin={0} aria-valuemax={u.most} aria-valuenow={u.used ?? 0}><i style={{ width: `${Math.min((u.used ?? 0) / u.most, 1) * 100}%` }} /></span>
                <span class="num">{u.used ?? 0} of {u.most}{u.per ? ` in ${span(u.per)}` : ""}</span></>}</p>
          ))}
              {l.held ? <p class="use"><span>held back</span><span class="num">{l.held.toLocaleString("en")} since start</span></p> : null}
          {l.breaker && !l.breaker.open ? <p class="use"><span>breaker</span><span class="dim">{l.breaker.failed} of {l.breaker.opens} failures among {l.breaker.of} that open it</span></p> : null}
        </li>
      ))}</ul>
    </section>
  );
}

function Services({ got }: { got: QueueReport }) {
  const all = got.services ?? [];
  if (all.length === 0) return null;
  return (
    <>
      <Table name="Retries by service" kind="pressure" head={["Service", "Retries a minute", "Share", "Last 5 min", "Since start"]}>
        {all.map((s) => (
          <tr key={s.service}><td>{s.service ? <bdi>{plain(s.service)}</bdi> : <span class="dim">no service</span>}</td><td class="num">{s.perMinute}</td>
            <td class="num">{s.attempts > 0 ? Math.round(s.retries / s.attempts * 100) : 0} %</td><td><Bars counts={s.parts ?? []} name={s.service ?? "no service"} /></td><td class="num">{s.all}</td></tr>
        ))}
      </Table>
      <p><Link to={runsOf("is:retrying")}>Runs that retry now</Link></p>
    </>
  );
}

// Bars are counts over time, the newest at the right.
function Bars({ counts, name }: { counts: number[]; name: string }) {
  const top = Math.max(...counts, 1), all = counts.reduce((a, b) => a + b, 0);
  return (
    <svg class="counts" viewBox={`0 0 ${counts.length * 8} 24`} preserveAspectRatio="none" role="img" aria-label={`${name}: ${all} retries in 5 minutes`}>
      {counts.map((n, i) => n > 0 ? <rect key={i} x={i * 8} y={24 - Math.max(n / top * 24, 2)} width={7} height={Math.max(n / top * 24, 2)} /> : null)}
    </svg>
  );
}

function Workers({ got }: { got: QueueReport }) {
  const all = got.workers ?? [];
  if (all.length === 0) return null;
  return (
    <Table name="Workers" kind="workers" head={["Worker", "Queue", "Takes", "Running", "Since", "Last asked"]}>
      {all.map((w) => (
        <tr key={`${w.queue} ${w.name}`}>
          <td>{w.name ? <bdi>{plain(w.name)}</bdi> : <span class="dim">no name</span>}</td><td><bdi>{plain(w.queue)}</bdi></td>
          <td>{(w.types ?? []).length > 0 ? plain((w.types ?? []).join(", ")) : <span class="dim">everything</span>}</td><td class="num">{w.running}</td>
          <td><Time at={w.since} ago /></td><td>{w.asks ? "it waits for tasks" : <Time at={w.last} ago />}</td>
        </tr>
      ))}
    </Table>
  );
}
