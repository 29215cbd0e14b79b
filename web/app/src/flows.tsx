// The flows that can be started by name, with how their runs of the last week went.
import { useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import { useAsked } from "./asked.ts";
import { getOverview, listFlows } from "./api.ts";
import { Link, Problem } from "./parts.tsx";
import { quoted, runsOf } from "./query.ts";
import { length, readLength } from "./time.ts";

const week = "168h";

export function Flows() {
  const [sought, setSought] = useState("");
  const [flows, error] = useAsked(listFlows, "", 10_000);
  const [o] = useAsked(() => getOverview(week), "", 30_000);
  const figures = new Map((o?.flows ?? []).map((f) => [f.workflow, f]));
  const names = [...new Set([...(flows ?? []).map((f) => f.name), ...figures.keys()])].filter((n) => n.toLowerCase().includes(sought.toLowerCase())).sort();
  const known = new Map((flows ?? []).map((f) => [f.name, f]));
  return (
    <main>
      <div class="row-between"><h1>Flows</h1><Link to="/start?flow=new" class="button">New flow</Link></div>
      <Problem error={error} />
      <input type="search" aria-label="Search flows" placeholder="search" value={sought} onInput={(e) => setSought(e.currentTarget.value)} />
      {!flows ? <p class="dim">Loading…</p> : names.length === 0 ? <p class="empty">{sought ? "No match." : <>There are no flows. Write one in a folder, and serve it: <code>pawl dev FOLDER</code></>}</p> : (
        <div class="scroll" tabIndex={0} aria-label="Flows">
          <table class="flows">
            <thead><tr><th>flow</th><th>runs, 7d</th><th>failed</th><th>p50</th><th>p95</th><th>now</th><th>file</th><th><span class="unseen">Start</span></th></tr></thead>
            <tbody>{names.map((n) => {
              const f = figures.get(n), k = known.get(n);
              return (
                <tr key={n}>
                  <td><Link to={runsOf(`flow:${quoted(n)}`)}><bdi>{plain(n)}</bdi></Link></td>
                  <td class="num">{(f?.runs ?? 0).toLocaleString("en")}</td><td class={f && f.failed > 0 ? "num bad" : "num"}>{f?.failed ?? 0}</td>
                  <td class="num">{length(readLength(f?.p50)) || "–"}</td><td class="num">{length(readLength(f?.p95)) || "–"}</td>
                  <td class="dim">{[f?.open ? `${f.open} open` : "", f?.retrying ? `${f.retrying} retrying` : ""].filter(Boolean).join(", ")}</td>
                  <td class="dim">{k?.problem ? <span class="bad">{plain(k.problem.split("\n")[0] ?? "")}</span> : <bdi>{plain(k?.file ?? "")}</bdi>}</td>
                  <td>{k && !k.problem ? <Link to={`/start?flow=${encodeURIComponent(n)}`} class="button">Start</Link> : null}</td>
                </tr>
              );
            })}</tbody>
          </table>
        </div>
      )}
    </main>
  );
}
