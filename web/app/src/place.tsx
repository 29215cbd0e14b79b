// A place in a flow file. It opens the text that the run's definition keeps, at the line.
import { useEffect, useRef, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import { getDefinition } from "./api.ts";
import { Dialog, Problem } from "./parts.tsx";
import { placeOf, textOf } from "./source.ts";

export function PlaceLink({ origin, definition }: { origin: string; definition: string | undefined }) {
  const [open, setOpen] = useState(false);
  const name = plain(origin.split("/").pop() ?? "");
  if (!definition || !placeOf(origin)) return <bdi title={plain(origin)}>{name}</bdi>;
  return (
    <>
      <button type="button" class="link" title={plain(origin)} onClick={() => setOpen(true)}><bdi>{name}</bdi></button>
      {open ? <Source origin={origin} definition={definition} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function Source({ origin, definition, onClose }: { origin: string; definition: string; onClose: () => void }) {
  const [text, setText] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const { file, line } = placeOf(origin) ?? { file: "", line: 0 };
  const at = useRef<HTMLElement>(null);
  useEffect(() => { getDefinition(definition).then((d) => setText(textOf(d.source, file) ?? ""), setError); }, [definition, file]);
  useEffect(() => at.current?.scrollIntoView({ block: "center" }), [text]);
  return (
    <Dialog title={plain(`${file.split("/").pop()}, line ${line}`)} onClose={onClose}>
      <Problem error={error} />
      {text === "" ? <p class="dim">Its text is not kept with the run: {plain(origin)}</p> : null}
      {text ? <pre class="source" tabIndex={0}>{text.split("\n").map((l, i) => (
        <code key={i} class={i + 1 === line ? "at" : ""} ref={i + 1 === line ? at : undefined}><span class="dim num">{i + 1}</span>{plain(l) || " "}</code>
      ))}</pre> : null}
      <form method="dialog"><div class="menu"><button>Close</button></div></form>
    </Dialog>
  );
}
