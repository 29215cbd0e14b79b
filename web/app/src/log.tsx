// What an attempt has printed, followed while it runs.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ansi, readable } from "./ansi.ts";
import { getLog } from "./api.ts";
import { Problem } from "./parts.tsx";

const kept = 400_000; // characters that are shown: the last ones

export function Log({ run, step, attempt, open }: { run: string; step: string; attempt: number; open: boolean }) {
  const [text, setText] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const box = useRef<HTMLPreElement>(null);
  const follow = useRef(true);
  const going = useRef(open);
  going.current = open;
  useEffect(() => {
    const stop = new AbortController();
    void (async () => {
      const decoder = new TextDecoder();
      let from = 0, all = "";
      for (;;) {
        try {
          const last = !going.current; // what it prints after this is read below
          const part = await getLog(run, step, attempt, from, stop.signal);
          setError(null);
          const more = part.next > from;
          from = part.next;
          all = (all + decoder.decode(part.bytes, { stream: true })).slice(-kept);
          setText(all);
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
  const [sought, setSought] = useState("");
  const [whole, setWhole] = useState(false);
  const lines = useMemo(() => readable(text ?? "", sought, whole), [text, sought, whole]);
  useEffect(() => { const el = box.current; if (el && follow.current) el.scrollTop = el.scrollHeight; }, [lines]);
  const save = () => {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([text ?? ""], { type: "text/plain" }));
    a.download = `${step}.${attempt}.log`;
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  };
  return (
    <>
      <div class="tools">
        <input type="search" aria-label="Search in the log" placeholder="search" value={sought} onInput={(e) => setSought(e.currentTarget.value)} />
        <button type="button" onClick={save} disabled={!text}>Download</button>
        {lines.hidden > 0 || whole ? <label class="check dim"><input type="checkbox" checked={whole} onChange={(e) => setWhole(e.currentTarget.checked)} /> lines for Pawl</label> : null}
      </div>
      <Problem error={error} />
      <pre class="log" ref={box} tabIndex={0} aria-label={`What attempt ${attempt} of ${step} printed`}
        onScroll={(e) => { const el = e.currentTarget; follow.current = el.scrollHeight - el.scrollTop - el.clientHeight < 20; }}>
        {text === null ? "…" : text === "" ? (open ? "(it has printed nothing yet)" : "(it printed nothing)") :
          lines.text === "" ? sought ? "(no match)" : "(only lines for Pawl)" : ansi(lines.text).map((p, i) => p.style ? <span key={i} class={p.style}>{p.text}</span> : p.text)}
      </pre>
    </>
  );
}
