// The first screen: what needs a person, how the runs of late went, and what comes within the hour.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Concern, Due, Overview, Sample } from "./api.ts";
import { getAttention, getOverview } from "./api.ts";
import { useAsked } from "./asked.ts";
import { actionOf, kept, shownOf, targetOf } from "./attention.ts";
import { Link, Problem, Time } from "./parts.tsx";
import { Says } from "./says.tsx";
import { stored, store, utc } from "./state.ts";
import { instant, length, parse, readLength } from "./time.ts";
import { toast } from "./toast.tsx";
import { quoted, runsOf } from "./query.ts";

const spans: [string, string][] = [["1h", "1h"], ["24h", "24h"], ["7d", "168h"]];

export function OverviewPage({ search }: { search: string }) {
  const over = new URLSearchParams(search).get("over") ?? "24h";
  const [got, error] = useAsked(() => getOverview(over), over, 10_000);
  const [all, wrong] = useAsked(getAttention, "", 5000);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set(stored("pawl.hidden")?.split(" ")));
  const concerns = all?.concerns ?? [], shown = shownOf(concerns, hidden);
  const hide = (ids: ReadonlySet<string>) => { setHidden(ids); store("pawl.hidden", kept(concerns, ids).join(" ")); };
  return (
    <main class="overview">
      <div class="title overview-title">
        <h1>Overview</h1>
        <nav class="segments" aria-label="Over how long">{spans.map(([words, s]) => <Link key={s} to={`/?over=${s}`} current={s === over}>{words}</Link>)}</nav>
        {got ? <span class="dim"><Link to={runsOf("is:open")}>{got.open} open</Link> · {shown.length === 1 ? "1 thing needs" : `${shown.length} things need`} somebody</span> : null}
      </div>
      <Problem error={error ?? wrong} />
      {got ? <Tiles o={got} words={spans.find(([, s]) => s === over)?.[0] ?? over} /> : null}
      {all ? <Needed shown={shown} away={concerns.length - shown.length} hide={(id) => { hide(new Set([...hidden, id])); toast("Hidden until it changes", () => hide(hidden)); }} all={() => hide(new Set())} /> : null}
      {got ? <div class="halves"><Flows o={got} /><NextHour o={got} /></div> : <p class="dim">Loading…</p>}
    </main>
  );
}

function Tiles({ o, words }: { o: Overview; words: string }) {
  const { all, parts, each, since, from } = o.counted, many = parts ?? [];
  const retrying = (o.flows ?? []).filter((f) => f.retrying).map((f) => `${f.workflow} ${f.retrying}`);
  const lengths = (of: (s: Sample) => string | undefined) => many.map((s) => Math.log1p(readLength(of(s)) || 0));
  const told = (text: string | undefined) => length(readLength(text)) || "–";
  // What is not in the runs is there since the counting began.
  const late = parse(since) - parse(from) > readLength(each) ? <>counted since <Time at={since} /></> : null;
  return (
    <div class="figures">
      <Tile name="Started" figure={count(all.started)} beside={`in ${words}`} tone="run" bars={many.map((s) => s.started)} of={`runs started, each bar ${each}`} below={`each bar ${length(readLength(each))}`} />
      <Tile name="Failed or timed out" figure={count(all.failed)} beside={all.started > 0 ? `${(all.failed / all.started * 100).toFixed(1)} %` : ""} tone={all.failed > 0 ? "bad" : "hold"}
        bars={many.map((s) => s.failed)} of="runs failed" below={all.failed > 0 ? "by when they failed" : "none"} />
      <Tile name="Retries" figure={count(all.retries)} beside={late} tone={o.retrying > 0 ? "warn" : "hold"} bars={many.map((s) => s.retries)} of="retries" below={retrying.length > 0 ? `now ${retrying.slice(0, 3).join(" · ")}` : "no run is tried again now"} />
      <Tile name="Run time, p95" figure={told(all.runP95)} beside={o.all.p50 ? `p50 ${length(readLength(o.all.p50))}` : ""} tone="wait" bars={lengths((s) => s.runP95)} of="how long runs took, as powers" below={slowest(o)} />
      <Tile name="Wait for a worker, p95" figure={told(all.waitP95)} beside={late} tone={o.queued > 0 ? "warn" : "hold"} bars={lengths((s) => s.waitP95)} of="how long attempts waited, as powers" below={[o.queued > 0 ? `${count(o.queued)} wait now` : "", all.late ? `timers at most ${length(readLength(all.late))} late` : "no timer was late"].filter(Boolean).join(" · ")} />
    </div>
  );
}

const count = (n: number) => n.toLocaleString("en");

function slowest(o: Overview): string {
  const [first] = (o.flows ?? []).filter((f) => f.p95).sort((a, b) => readLength(b.p95) - readLength(a.p95));
  return first ? `${first.workflow} p95 ${length(readLength(first.p95))}` : "no run has ended";
}

function Tile(props: { name: string; figure: string; beside: ComponentChildren; tone: string; bars?: number[]; of?: string; below: string }) {
  return (
    <section class="card figure">
      <h2 class="dim">{props.name}</h2>
      <p><b class={`icon ${props.tone} num`}>{props.figure}</b> <span class="dim meta">{props.beside}</span></p>
      {props.bars ? <Bars values={props.bars} tone={props.tone} of={props.of ?? props.name} /> : null}
      <p class="dim meta">{plain(props.below)}</p>
    </section>
  );
}

// Bars are values over time, the newest at the right.
function Bars({ values, tone, of }: { values: number[]; tone: string; of: string }) {
  const most = Math.max(...values, 0) || 1;
  return (
    <svg class={`spark ${tone}`} viewBox={`0 0 ${values.length * 8} 36`} preserveAspectRatio="none" role="img" aria-label={of}>
      <line x1={0} x2={values.length * 8} y1={35.5} y2={35.5} />
      {values.map((v, i) => v > 0 ? <rect key={i} x={i * 8} width={6} y={36 - Math.max(v / most * 36, 2)} height={Math.max(v / most * 36, 2)} /> : null)}
    </svg>
  );
}

const icons: Record<string, [string, string]> = {
  failed: ["■", "bad"], will_miss: ["■", "bad"], stuck: ["▲", "warn"], schedule: ["▲", "warn"], webhook: ["✉", "warn"], flow: ["▲", "warn"], waits: ["●", "wait"], paused: ["▮▮", "hold"],
};

function Needed({ shown, away, hide, all }: { shown: Concern[]; away: number; hide: (id: string) => void; all: () => void }) {
  return (
    <section class="card needed">
      <h2>Needs attention <span class="dim">{shown.length > 0 ? `${shown.length} · grouped by cause, worst first` : ""}</span>
        {away > 0 ? <button type="button" class="fold dim" onClick={all}>show {away} that {away === 1 ? "is" : "are"} hidden</button> : null}</h2>
      {shown.length === 0 ? <p class="dim"><span class="icon ok" aria-hidden="true">✓</span> Nothing needs anybody.</p> : (
        <ul>{shown.map((c) => <NeededRow key={c.id} c={c} hide={hide} />)}</ul>
      )}
    </section>
  );
}

function NeededRow({ c, hide }: { c: Concern; hide: (id: string) => void }) {
  const [icon, tone] = icons[c.cause] ?? ["●", "hold"];
  return (
    <li>
      <span class={`icon ${tone}`} aria-hidden="true">{icon}</span>
      <b dir="auto"><Link to={targetOf(c)}>{plain(c.says.text)}</Link></b>
      <span class="dim" dir="auto"><Says says={c.why} run={c.of?.[0] ?? ""} /></span>
      <span class="dim num">{c.at ? <Time at={c.at} ago /> : null}</span>
      <span class="actions">
        <Link to={targetOf(c)} class="button">{actionOf(c)}</Link>
        <button type="button" aria-label={`Hide until it changes: ${c.says.text}`} title="Hide until it changes" onClick={() => hide(c.id)}>×</button>
      </span>
    </li>
  );
}

function Flows({ o }: { o: Overview }) {
  const flows = o.flows ?? [];
  return (
    <section class="card">
      <h2>Flows</h2>
      {flows.length === 0 ? <p class="dim">No run began in this time. Start one:<br /><code>pawl run examples/backup/flow.yaml --server {location.origin}</code></p> : (
        <div class="scroll" tabIndex={0} aria-label="Flows">
          <table class="flows">
            <thead><tr><th>flow</th><th>runs</th><th>failed</th><th>p50</th><th>p95</th><th>now</th></tr></thead>
            <tbody>{flows.slice(0, 12).map((f) => (
              <tr key={f.workflow}>
                <td><Link to={runsOf(`flow:${quoted(f.workflow)}`)}><bdi>{plain(f.workflow)}</bdi></Link></td>
                <td class="num">{count(f.runs)}</td><td class={f.failed > 0 ? "num bad" : "num"}>{count(f.failed)}</td>
                <td class="num">{length(readLength(f.p50)) || "–"}</td><td class="num">{length(readLength(f.p95)) || "–"}</td>
                <td class="dim">{[f.open ? `${f.open} open` : "", f.retrying ? `${f.retrying} retrying` : ""].filter(Boolean).join(", ")}</td>
              </tr>
            ))}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

const hour = 3_600_000, lanes = 6;

// NextHour has a lane for each schedule, and one for the deadlines of runs.
function NextHour({ o }: { o: Overview }) {
  const from = parse(o.to), by = new Map<string, Due[]>();
  for (const d of o.due ?? []) {
    const lane = d.kind === "firing" ? d.name : "deadlines";
    by.set(lane, [...(by.get(lane) ?? []), d]);
  }
  const x = (d: Due) => `${Math.min(Math.max((parse(d.at) - from) / hour * 100, 0), 100)}%`;
  const missed = (o.due ?? []).filter((d) => d.kind === "missed").length;
  return (
    <section class="card">
      <h2>Next hour</h2>
      {by.size === 0 ? <p class="dim">No schedule fires, and no deadline comes.</p> : [...by].slice(0, lanes).map(([lane, all]) => (
        <div class="lane" key={lane}>
          <p class="meta">{lane === "deadlines" ? <><Link to="/deadlines?within=1h">{all.length} deadline{all.length === 1 ? "" : "s"}</Link>{missed > 0 ? <span class="bad"> {missed} will be missed</span> : null}</>
            : <Link to="/schedules"><bdi>{plain(lane)}</bdi></Link>} <span class="dim">first <Time at={all[0]?.at} ago /></span></p>
          <div class="dots" role="img" aria-label={`${lane}: ${all.map((d) => instant(parse(d.at), utc.value)).join(", ")}`}>
            {all.map((d, i) => <i key={i} class={d.kind} style={{ left: x(d) }} title={`${plain(d.name)} at ${instant(parse(d.at), utc.value)}`} />)}
          </div>
        </div>
      ))}
    </section>
  );
}
