// A flow that is written here: what is wrong with it is shown at its place while one writes, and nothing starts.
import { useEffect, useRef, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { CheckedFlow } from "./api.ts";
import { validateFlow } from "./api.ts";
import { caller } from "./caller.ts";
import { Problem } from "./parts.tsx";

const sample = 'pawl: 1\nname: hello\nsteps:\n  - {name: greet, exec: "echo hello", retry: "exponential(3, 1s)"}\n';

// useChecked asks the server what it says of a text, a moment after the last key.
function useChecked(text: string): [CheckedFlow | null, unknown] {
  const [said, setSaid] = useState<CheckedFlow | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    if (!caller.value?.brings) return;
    let over = false;
    const wait = setTimeout(() => {
      validateFlow(text).then((c) => { if (!over) { setSaid(c); setError(null); } }, (e: unknown) => { if (!over) { setSaid(null); setError(e); } });
    }, 250);
    return () => { over = true; clearTimeout(wait); };
  }, [text]);
  return [said, error];
}

// place finds the offset of a line and a character in a text.
function place(text: string, line: number, col: number): number {
  const before = text.split("\n").slice(0, line - 1);
  return before.reduce((sum, l) => sum + l.length + 1, 0) + Math.max(col - 1, 0);
}

export function Written({ onStart, error, busy }: { onStart: (body: { flow: string; input: unknown }) => void; error: unknown; busy: boolean }) {
  const [text, setText] = useState(() => sessionStorage.getItem("pawl.flow") ?? sample);
  const [input, setInput] = useState("{}");
  const [wrong, setWrong] = useState<unknown>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const [said, refusal] = useChecked(text);
  useEffect(() => { sessionStorage.setItem("pawl.flow", text); }, [text]);
  const here = (said?.findings ?? []).filter((f) => !f.file);
  const marks = new Map(here.filter((f) => f.line).map((f) => [f.line, f.severity === "error" ? "wrong" : "look"]));
  const goTo = (line: number, col: number) => {
    const at = place(text, line, col);
    area.current?.focus();
    area.current?.setSelectionRange(at, at + 1);
  };
  const start = () => {
    try {
      setWrong(null);
      onStart({ flow: text, input: JSON.parse(input) as unknown });
    } catch (e) {
      setWrong(e);
    }
  };
  if (!caller.value?.brings) {
    return <p class="empty">The token “{plain(caller.value?.name ?? "")}” may start the flows that the server has, and not bring one: its steps execute commands there. This takes an admin.</p>;
  }
  return (
    <form class="card" onSubmit={(e) => { e.preventDefault(); start(); }}>
      <label>Flow<div class="editor">
        <pre class="lines" aria-hidden="true">{text.split("\n").map((_, i) => <span key={i} class={marks.get(i + 1) ?? ""}>{i + 1}{"\n"}</span>)}</pre>
        <textarea ref={area} rows={Math.min(Math.max(text.split("\n").length + 1, 8), 40)} wrap="off" spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} />
      </div></label>
      {said?.valid ? <p class="verdict good" role="status">{plain(said.name ?? "")} can be started: {said.steps} step{said.steps === 1 ? "" : "s"}.</p> : null}
      <ul class="findings" aria-label="What is wrong">{(said?.findings ?? []).map((f, i) => (
        <li key={i} class={f.severity}>
          {f.line && !f.file ? <button type="button" onClick={() => goTo(f.line ?? 1, f.col ?? 1)}>{f.line}:{f.col}</button> : f.file ? <code>{plain(f.file)}:{f.line}</code> : null}
          <span dir="auto">{f.severity === "error" ? "" : `${f.severity}: `}{plain(f.message)}{f.hint ? <span class="dim"> — {plain(f.hint)}</span> : null}</span>
        </li>
      ))}</ul>
      <label>Input, JSON <textarea rows={3} spellcheck={false} value={input} onInput={(e) => setInput(e.currentTarget.value)} /></label>
      <Problem error={wrong ?? (said && !said.valid ? null : error) ?? refusal} />
      <div class="actions"><button type="submit" class="main" disabled={busy || said !== null && !said.valid}>Start</button></div>
    </form>
  );
}
