// A value as a tree that is searched and copied. Nothing in it is ever more than text.
import { useMemo, useState } from "preact/hooks";
import { plain } from "./ansi.ts";

const many = 100; // entries of one list, and characters of one text in hundreds, that are shown before one asks for more
const long = 2000;

const isTree = (v: unknown): v is object => typeof v === "object" && v !== null;
const entries = (v: object): [string, unknown][] => Array.isArray(v) ? v.map((e, i) => [String(i), e]) : Object.entries(v);

// counted says how many entries or fields a value has.
function counted(v: object): string {
  const n = entries(v).length;
  return Array.isArray(v) ? `${n} ${n === 1 ? "entry" : "entries"}` : `${n} ${n === 1 ? "field" : "fields"}`;
}

// holds says whether a search finds something in a value: in a name or in what is not a tree.
function holds(name: string, v: unknown, sought: string): boolean {
  if (name.toLowerCase().includes(sought)) return true;
  return isTree(v) ? entries(v).some(([k, e]) => holds(k, e, sought)) : String(v).toLowerCase().includes(sought);
}

export function Value({ name, value }: { name: string; value: unknown }) {
  const [sought, setSought] = useState("");
  const [copied, setCopied] = useState(false);
  const text = useMemo(() => typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "", [value]);
  if (value === undefined || value === null) return null;
  const copy = () => void navigator.clipboard.writeText(text).then(() => setCopied(true), () => setCopied(false));
  const s = sought.trim().toLowerCase();
  const size = isTree(value) ? counted(value) : "";
  return (
    <details class="value" open={text.length < 4000}>
      <summary><b>{name}</b> <span class="dim">{text.length > long ? `${text.length} characters` : size}</span></summary>
      <div class="tools">
        {isTree(value) && text.length > 200
          ? <input type="search" aria-label={`Search in ${name}`} placeholder="search" value={sought} onInput={(e) => setSought(e.currentTarget.value)} /> : null}
        <button type="button" onClick={copy}>{copied ? "Copied" : "Copy"}</button>
      </div>
      {s && !holds("", value, s) ? <p class="dim">No match.</p> : <Node value={value} sought={s} depth={0} />}
    </details>
  );
}

function Node({ value, sought, depth }: { value: unknown; sought: string; depth: number }) {
  const [shown, setShown] = useState(many);
  if (!isTree(value)) return <Leaf value={value} />;
  const all = entries(value);
  if (all.length === 0) return <span class="dim">{Array.isArray(value) ? "[ ]" : "{ }"}</span>;
  const found = sought ? all.filter(([k, v]) => holds(k, v, sought)) : all;
  return (
    <ul class="tree">
      {found.slice(0, shown).map(([k, v]) => <Entry key={k} name={k} value={v} depth={depth}
        sought={sought && k.toLowerCase().includes(sought) ? "" : sought} found={sought !== ""} />)}
      {found.length > shown ? <li><button type="button" onClick={() => setShown(shown + 1000)}>{found.length - shown} more</button></li> : null}
    </ul>
  );
}

function Entry({ name, value, sought, depth, found }: { name: string; value: unknown; sought: string; depth: number; found: boolean }) {
  const size = isTree(value) ? entries(value).length : 0;
  const [open, setOpen] = useState(depth < 2 && size <= 20);
  const label = <bdi class="field">{plain(name)}</bdi>;
  if (size === 0) return <li>{label}: <Node value={value} sought={sought} depth={depth + 1} /></li>;
  const unfolded = open || found;
  return (
    <li>
      <button type="button" class="fold" aria-expanded={unfolded} onClick={() => setOpen(!open)}>{unfolded ? "▾" : "▸"} {label}</button>
      <span class="dim"> {isTree(value) ? counted(value) : ""}</span>
      {unfolded ? <Node value={value} sought={sought} depth={depth + 1} /> : null}
    </li>
  );
}

function Leaf({ value }: { value: unknown }) {
  const [whole, setWhole] = useState(false);
  const text = typeof value === "string" ? plain(value) : String(value);
  return (
    <>
      <span dir="auto" class={`leaf ${typeof value}`}>{whole || text.length <= long ? text : text.slice(0, long) + "…"}</span>
      {text.length > long && !whole ? <button type="button" onClick={() => setWhole(true)}>Show all {text.length} characters</button> : null}
    </>
  );
}
