// Goes anywhere by a few letters: to a page, a flow, a run, and what can be done to what is shown.
import { useEffect, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import { listFlows, suggest } from "./api.ts";
import { Dialog } from "./parts.tsx";
import { quoted, runsOf, terms } from "./query.ts";
import { go } from "./state.ts";

interface Way { words: string; says: string; take: () => void }

const most = 12;

// ofShown are the buttons of the run that is shown.
const ofShown = (): Way[] => [...document.querySelectorAll<HTMLButtonElement>("header.run .actions button:not(:disabled)")]
  .map((b) => ({ words: b.textContent ?? "", says: "this run", take: () => b.click() }));

export function Palette({ pages, onClose }: { pages: readonly (readonly [string, string])[]; onClose: () => void }) {
  const [text, setText] = useState("");
  const [shown] = useState(ofShown);
  const [flows, setFlows] = useState<Way[]>([]);
  const [runs, setRuns] = useState<Way[]>([]);
  const [at, setAt] = useState(0);
  useEffect(() => {
    listFlows().then((all) => setFlows(all.filter((f) => !f.problem).map((f) => ({ words: `Start ${f.name}`, says: "flow", take: () => go(`/start?flow=${encodeURIComponent(f.name)}`) }))), () => {});
  }, []);
  useEffect(() => {
    let over = false;
    setAt(0);
    if (text.trim() === "") { setRuns([]); return; }
    const wait = setTimeout(() => void suggest(text).then((all) => {
      if (over) return;
      setRuns(all.filter((s) => !s.term.endsWith(":")).map((s) => {
        const id = /^id:(.*)$/.exec(s.term)?.[1];
        const name = id?.replace(/^"|"$/g, "");
        return { words: name ?? s.term, says: name ? "run" : "runs", take: () => go(name ? `/run/${encodeURIComponent(name)}` : runsOf(s.term)) };
      }));
    }, () => {}), 120);
    return () => { over = true; clearTimeout(wait); };
  }, [text]);
  const like = (w: Way) => w.words.toLowerCase().includes(text.trim().toLowerCase());
  const find: Way = { words: `Find ${text}`, says: "runs", take: () => go(runsOf(terms(text).every((t) => /[:=]/.test(t)) ? text : quoted(text))) };
  const all = [...shown, ...pages.map(([to, name]) => ({ words: name, says: "page", take: () => go(to) })), ...flows].filter(like).concat(runs).slice(0, most);
  const ways = text.trim() ? [...all, find] : all, chosen = Math.min(at, ways.length - 1);
  const take = (w: Way | undefined) => { onClose(); w?.take(); };
  return (
    <Dialog title="Go to" onClose={onClose}>
      <form method="dialog" onSubmit={(e) => { e.preventDefault(); take(ways[chosen]); }}>
        <input type="text" autofocus value={text} role="combobox" aria-label="A page, a flow, a run, an action" aria-expanded="true" aria-controls="ways" aria-activedescendant={`way-${chosen}`}
          placeholder="a page, a flow, a run, an action" onInput={(e) => setText(e.currentTarget.value)} onKeyDown={(e) => {
            const by = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
            if (by === 0) return;
            e.preventDefault();
            setAt(Math.min(Math.max(chosen + by, 0), ways.length - 1));
          }} />
        <ul class="goto" id="ways" role="listbox" aria-label="Where to">{ways.map((w, i) => (
          <li key={i} id={`way-${i}`} role="option" aria-selected={i === chosen} onClick={() => take(w)}><bdi>{plain(w.words)}</bdi> <span class="dim">{w.says}</span></li>
        ))}</ul>
      </form>
    </Dialog>
  );
}
