// What an attempt has printed, followed while it runs: lines with numbers, which the address can name.
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { getLog, saved } from "./api.ts";
import { LogText, painted, sought, type Line } from "./loglines.ts";
import { Problem } from "./parts.tsx";
import { store, stored, utc } from "./state.ts";
import { instant, parse } from "./time.ts";

const page = 1000; // lines that are shown, the last ones; more where one asks
const together = 100; // lines that are drawn anew together

interface Props { run: string; step: string; attempt: number; open: boolean; line: number; onLine: (line: number) => void }

// useLog follows what an attempt prints.
function useLog({ run, step, attempt, open }: Props): [Line[] | null, unknown] {
  const [lines, setLines] = useState<Line[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const going = useRef(open);
  going.current = open;
  useEffect(() => {
    const stop = new AbortController();
    void (async () => {
      const text = new LogText();
      let from = 0;
      for (;;) {
        try {
          const last = !going.current; // what it prints after this is read below
          const part = await getLog(run, step, attempt, from, stop.signal);
          setError(null);
          const more = part.next > from;
          text.add(from, part.bytes, part.marks);
          from = part.next;
          setLines([...text.lines]);
          if (more) continue;
          if (last) return;
        } catch (e) {
          if (stop.signal.aborted) return;
          setError(e);
        }
        await new Promise((done) => setTimeout(done, 1000));
        if (stop.signal.aborted) return;
      }
    })();
    return () => stop.abort();
  }, [run, step, attempt]);
  return [lines, error];
}

export function Log(props: Props) {
  const { step, attempt, open, line } = props;
  const [lines, error] = useLog(props);
  const box = useRef<HTMLPreElement>(null);
  const follow = useRef(line === 0);
  const [text, setText] = useState("");
  const [stream, setStream] = useState("");
  const [whole, setWhole] = useState(false);
  const [wrap, setWrap] = useState(stored("pawl.wrap") !== "no");
  const [shown, setShown] = useState(page);
  const found = useMemo(() => sought(lines ?? [], text, stream, whole), [lines, text, stream, whole]);
  const at = line > 0 ? found.lines.findIndex((l) => l.n === line) : -1;
  const first = Math.max(Math.min(found.lines.length - shown, at < 0 ? Infinity : at - 20), 0);
  useEffect(() => {
    const el = box.current;
    if (el && follow.current) el.scrollTop = el.scrollHeight;
  }, [found]);
  useEffect(() => { if (at >= 0) box.current?.querySelector(".at")?.scrollIntoView({ block: "center" }); }, [at >= 0, line]);
  const marked = (lines ?? []).some((l) => l.stream === "stderr");
  const save = async () => {
    const parts: Uint8Array<ArrayBuffer>[] = [], signal = new AbortController().signal;
    for (let from = 0, more = true; more;) {
      const part = await getLog(props.run, step, attempt, from, signal);
      parts.push(part.bytes);
      more = part.next > from;
      from = part.next;
    }
    saved(new Blob(parts, { type: "text/plain" }), `${step}.${attempt}.log`);
  };
  const check = (on: boolean, set: (on: boolean) => void, words: string) =>
    <label class="check dim"><input type="checkbox" checked={on} onChange={(e) => set(e.currentTarget.checked)} /> {words}</label>;
  return (
    <>
      <div class="tools">
        <input type="search" aria-label="Search in the log" placeholder="search" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        {marked ? <select aria-label="Stream" value={stream} onChange={(e) => setStream(e.currentTarget.value)}>
          <option value="">both streams</option><option>stdout</option><option>stderr</option></select> : null}
        <button type="button" onClick={() => void save()} disabled={!lines?.length}>Download</button>
        {check(wrap, (on) => { setWrap(on); store("pawl.wrap", on ? "yes" : "no"); }, "wrap")}
        {found.hidden > 0 || whole ? check(whole, setWhole, "lines for Pawl") : null}
      </div>
      <Problem error={error} />
      {first > 0 ? <button type="button" class="fold dim" onClick={() => { follow.current = false; setShown(shown + page); }}>▴ {first} lines above</button> : null}
      <pre class={`log${wrap ? "" : " whole"}`} ref={box} tabIndex={0} aria-label={`What attempt ${attempt} of ${step} printed`}
        onScroll={(e) => { const el = e.currentTarget; follow.current = el.scrollHeight - el.scrollTop - el.clientHeight < 20; }}>
        {!lines ? "…" : lines.length === 0 ? (open ? "(it has printed nothing yet)" : "(it printed nothing)")
          : found.lines.length === 0 ? text || stream ? "(no match)" : "(only lines for Pawl)" : <Lines {...props} lines={first > 0 ? found.lines.slice(first) : found.lines} />}
      </pre>
    </>
  );
}

// Lines draws lines in blocks. A block whose lines did not change is not drawn anew, as those of a log that grows.
function Lines({ lines, line, attempt, onLine }: Props & { lines: readonly Line[] }) {
  const before = useRef(new Map<number, { key: string; view: VNode }>());
  const next: typeof before.current = new Map(), pieces = useMemo(() => painted(lines), [lines]);
  const out: VNode[] = [];
  for (let i = 0; i < lines.length; i += together) {
    const block = lines.slice(i, i + together), first = block[0]?.n ?? 0, last = block[block.length - 1];
    const key = `${first} ${last?.n} ${last?.text.length} ${block.length} ${block.some((l) => l.n === line) ? line : 0}`;
    const old = before.current.get(first);
    const view = old?.key === key ? old.view : (
      <span key={first} class="lines">{block.map((l, j) => (
        <span key={l.n} class={`logline ${l.stream}${l.n === line ? " at" : ""}`}>
          <a class="num" tabIndex={-1} href={address(attempt, l.n)} title={[l.stream, l.at && instant(parse(l.at), utc.value, true)].filter(Boolean).join(", ")}
            onClick={(e) => { e.preventDefault(); onLine(l.n === line ? 0 : l.n); }}>{l.n}</a>
          {l.stream === "stderr" ? <span class="unseen">stderr: </span> : null}
          {(pieces[i + j] ?? []).map((p, k) => p.style ? <span key={k} class={p.style}>{p.text}</span> : p.text)}{"\n"}
        </span>
      ))}</span>
    );
    next.set(first, { key, view });
    out.push(view);
  }
  before.current = next;
  return <>{out}</>;
}

// address names a line of the log that is shown.
function address(attempt: number, line: number): string {
  const q = new URLSearchParams(location.search);
  q.set("attempt", String(attempt));
  q.set("line", String(line));
  return `${location.pathname}?${q}`;
}
