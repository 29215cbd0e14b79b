// What an attempt has printed, followed while it runs.
import { useEffect, useRef, useState } from "preact/hooks";
import { ansi } from "./ansi.ts";
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
  useEffect(() => { const el = box.current; if (el && follow.current) el.scrollTop = el.scrollHeight; }, [text]);
  return (
    <>
      <Problem error={error} />
      <pre class="log" ref={box} tabIndex={0} aria-label={`What attempt ${attempt} of ${step} printed`}
        onScroll={(e) => { const el = e.currentTarget; follow.current = el.scrollHeight - el.scrollTop - el.clientHeight < 20; }}>
        {text === null ? "…" : text === "" ? (open ? "(it has printed nothing yet)" : "(it printed nothing)") :
          ansi(text).map((p, i) => p.style ? <span key={i} class={p.style}>{p.text}</span> : p.text)}
      </pre>
    </>
  );
}
