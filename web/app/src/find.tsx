// The field in which one writes which runs to see, and how they went over time.
import { useEffect, useRef, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Suggestion } from "./api.ts";
import { getHistogram, suggest } from "./api.ts";
import { useAsked } from "./asked.ts";
import { between, completed } from "./query.ts";
import { utc } from "./state.ts";
import { instant, length, parse, readLength } from "./time.ts";

const pause = 120; // ms between a key and the question how the text may go on

// Field is the text of a query, with suggestions for its last term.
export function Field({ q, onFind }: { q: string; onFind: (q: string) => void }) {
  const [text, setText] = useState(q);
  const [ways, setWays] = useState<Suggestion[]>([]);
  const [at, setAt] = useState(-1); // the suggestion that Enter takes; -1: none
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const asked = useRef(0);
  useEffect(() => setText(q), [q]);
  const close = () => { clearTimeout(timer.current); asked.current++; setWays([]); setAt(-1); };
  const ask = (to: string) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      const n = ++asked.current;
      suggest(to).then((all) => { if (n === asked.current) { setWays(all); setAt(-1); } }, () => {});
    }, pause);
  };
  const change = (to: string) => { setText(to); ask(to); };
  const take = (way: Suggestion) => { change(completed(text, way.term)); input.current?.focus(); };
  const onKey = (e: KeyboardEvent) => {
    const n = ways.length, way = ways[at];
    if ((e.key === "ArrowDown" || e.key === "ArrowUp") && n > 0) {
      e.preventDefault();
      setAt((at + 1 + (e.key === "ArrowDown" ? 1 : n)) % (n + 1) - 1);
    } else if (e.key === "Escape" && n > 0) { e.stopPropagation(); close(); }
    else if ((e.key === "Enter" || e.key === "Tab") && way) { e.preventDefault(); take(way); }
  };
  return (
    <form class="find" role="search" onSubmit={(e) => { e.preventDefault(); close(); onFind(text.trim()); }}>
      <input ref={input} type="search" name="q" value={text} aria-label="Find runs" placeholder="order-42   is:failed   flow:checkout   tenant=acme   error:503   newer:2d" autocomplete="off" spellcheck={false} maxLength={2000}
        role="combobox" list={undefined} aria-expanded={ways.length > 0} aria-controls="ways" aria-autocomplete="list" aria-activedescendant={at >= 0 ? `way${at}` : undefined}
        onInput={(e) => change(e.currentTarget.value)} onFocus={() => ask(text)} onBlur={close} onKeyDown={onKey}
        onSearch={(e) => { if (e.currentTarget.value === "") { close(); onFind(""); } }} />
      <ul id="ways" class="ways" role="listbox" aria-label="Ways to go on" hidden={ways.length === 0}>
        {ways.map((w, i) => (
          <li key={w.term} id={`way${i}`} role="option" aria-selected={i === at} onPointerDown={(e) => { e.preventDefault(); take(w); }}>
            <bdi>{plain(w.term)}</bdi> {w.says ? <span class="dim">{w.says}</span> : null}
          </li>
        ))}
      </ul>
    </form>
  );
}

const width = 8; // of a bar and the gap behind it

// Histogram shows when the runs of a query began and how they ended. Who draws over it chooses a time.
export function Histogram({ query, q, onFind }: { query: string; q: string; onFind: (q: string) => void }) {
  const [got] = useAsked(() => getHistogram(query), query, 10_000);
  const [drawn, setDrawn] = useState<[number, number] | null>(null);
  const parts = got?.parts ?? [], n = parts.length;
  if (!got || n === 0) return <div class="histogram" />;
  const most = Math.max(...parts.map((p) => p.runs), 1);
  const from = parse(got.from), each = readLength(got.each);
  const edge = (i: number) => new Date(from + i * each);
  const partAt = (e: PointerEvent) => {
    const box = (e.currentTarget as Element).getBoundingClientRect();
    return Math.min(Math.max(Math.floor((e.clientX - box.left) / box.width * n), 0), n - 1);
  };
  const end = () => {
    if (drawn) onFind(between(q, edge(Math.min(...drawn)).toISOString(), edge(Math.max(...drawn) + 1).toISOString()));
    setDrawn(null);
  };
  const bounded = between(q) !== q;
  return (
    <figure class="histogram">
      <svg viewBox={`0 0 ${n * width} 36`} preserveAspectRatio="none" role="img" aria-label={`${got.all.runs} runs by when they began, ${got.all.failed} of them failed`}
        onPointerDown={(e) => { e.currentTarget.setPointerCapture(e.pointerId); const i = partAt(e); setDrawn([i, i]); }}
        onPointerMove={(e) => { if (drawn) setDrawn([drawn[0], partAt(e)]); }} onPointerUp={end} onPointerCancel={() => setDrawn(null)}>
        {drawn ? <rect class="drawn" x={Math.min(...drawn) * width} width={(Math.abs(drawn[1] - drawn[0]) + 1) * width} y={0} height={36} /> : null}
        {parts.map((p, i) => {
          let y = 36;
          return [[p.failed, "bad"], [p.open ?? 0, "run"], [p.runs - p.failed - (p.open ?? 0), "ok"]].map(([runs, tone]) => {
            if (!(Number(runs) > 0)) return null;
            const height = Math.max(Number(runs) / most * 34, 1.5);
            y -= height;
            return <rect key={`${i}${tone}`} class={String(tone)} x={i * width} width={width - 2} y={y} height={height} />;
          });
        })}
        {parts.map((p, i) => <rect key={i} class="over" x={i * width} width={width} y={0} height={36}><title>{`${instant(edge(i).getTime(), utc.value)}, ${length(each)}: ${p.runs} began${p.failed ? `, ${p.failed} failed` : ""}`}</title></rect>)}
      </svg>
      <figcaption class="dim meta">
        <span>{instant(from, utc.value)}</span>
        <span class={bounded ? "" : "hint"}>{bounded ? <button type="button" class="plain" onClick={() => onFind(between(q))}>at any time</button> : "draw over it to choose a time"}{got.more ? ", the newest alone" : ""}</span>
        <span>{instant(parse(got.to), utc.value)}</span>
      </figcaption>
    </figure>
  );
}
