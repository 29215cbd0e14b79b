// Sentences of the server: what they refer to are links, and their instants count.
import type { ComponentChildren } from "preact";
import type { End, Part, Saying } from "./api.ts";
import { plain } from "./ansi.ts";
import { Link, Ticking } from "./parts.tsx";
import { PlaceLink } from "./place.tsx";
import { away, reads, target } from "./said.ts";
import { utc } from "./state.ts";
import { instant, parse } from "./time.ts";

function Piece({ p, run }: { p: Part; run: string }) {
  if (p.at) {
    const at = parse(p.at);
    return (
      <time dateTime={p.at} title={instant(at, utc.value, true)}>
        <b><Ticking key={p.at} of={(current) => reads(p.form, at, current)} /></b>{p.form === "in" ? <span class="dim"> ({instant(at, utc.value)})</span> : null}
      </time>
    );
  }
  const to = target(p, run);
  if (to) return <Link to={to}><bdi>{plain(p.run === p.text ? p.text.slice(0, 18) : p.text)}</bdi></Link>;
  if (p.failure) return <bdi class="failure">{plain(p.text)}</bdi>;
  return <>{p.step || p.event || p.place ? <bdi>{plain(p.text)}</bdi> : plain(p.text)}</>;
}

// Says is a sentence about a run or a step of it.
export function Says({ says, run }: { says: Saying | undefined; run: string }): ComponentChildren {
  if (!says) return null;
  return <>{(says.parts ?? [{ text: says.text }]).map((p, i) => <Piece key={i} p={p} run={run} />)}</>;
}

// Ends are what can end a run or a step, the first one first.
export function Ends({ ends, of, definition }: { ends: End[] | null | undefined; of?: string; definition: string | undefined }) {
  if (!ends || ends.length === 0) return null;
  return (
    <section class="ends" aria-label={`What can end ${of ?? "it"}`}>
      <h2 class="dim">What can end it, the first one first</h2>
      <table><tbody>{ends.map((e, i) => {
        const first = i === 0 && Boolean(e.at) && !e.renewed;
        return (
          <tr key={i} class={first ? "first" : ""}>
            <td class="num" aria-hidden="true">{first ? "▸" : i + 1}</td>
            <td><bdi>{e.step ? <span class="dim">{plain(e.step)} </span> : null}{e.text}</bdi></td>
            <td class="num" title={e.at ? instant(parse(e.at), utc.value) : undefined}><Ticking key={e.at} of={(current) => away(e, current)} /></td>
            <td class="dim">{e.origin ? <PlaceLink origin={e.origin} definition={definition} /> : null}</td>
          </tr>
        );
      })}</tbody></table>
    </section>
  );
}
