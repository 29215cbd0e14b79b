// The lines of a log: which stream each came from, when, and which of them one looks for.
import { ansi, type Piece } from "./ansi.ts";

export interface Mark { from: number; stream?: string | undefined; at: string }

export interface Line {
  n: number; // its number in the log, from 1
  stream: string; // stdout, stderr, pawl; "": not known
  at: string; // when it was read; "": not known
  text: string;
}

const kept = 5000; // lines, the last ones

// LogText takes the parts of a log as they come, and keeps its last lines.
export class LogText {
  lines: Line[] = [];
  private readonly decoder = new TextDecoder();
  private open: Line | null = null;
  private n = 0;
  private mark: Mark = { from: 0, stream: "", at: "" };

  // add takes the bytes from a place on.
  add(from: number, bytes: Uint8Array, marks: readonly Mark[]): void {
    let at = from;
    for (const m of marks) {
      if (m.from > at) this.take(this.decoder.decode(bytes.subarray(at - from, m.from - from), { stream: true }));
      at = Math.max(at, m.from);
      this.mark = m;
    }
    this.take(this.decoder.decode(bytes.subarray(at - from), { stream: true }));
    if (this.lines.length > kept) this.lines = this.lines.slice(-kept);
  }

  private take(text: string): void {
    const parts = text.split("\n");
    parts.forEach((part, i) => {
      const last = i === parts.length - 1;
      if (last && part === "") return;
      if (!this.open) {
        this.open = { n: ++this.n, stream: this.mark.stream ?? "", at: this.mark.at, text: "" };
        this.lines.push(this.open);
      }
      this.open.text += part;
      if (!last) this.open = null;
    });
  }
}

// protocol finds the lines with which a program talks to Pawl.
const protocol = /^\s*\{"pawl":\s*\{/;

// sought returns the lines of a log that one looks for. Lines for Pawl are hidden, unless one wants the whole.
export function sought(lines: readonly Line[], text: string, stream: string, whole: boolean): { lines: Line[]; hidden: number } {
  const s = text.toLowerCase();
  let hidden = 0;
  const out = lines.filter((l) => {
    if (protocol.test(l.text)) { hidden++; if (!whole) return false; }
    return (stream === "" || l.stream === stream || stream === "stdout" && l.stream === "") && (s === "" || l.text.toLowerCase().includes(s));
  });
  return { lines: out, hidden };
}

// painted returns the pieces of a line: colours that it does not end go on in the next one.
export const painted = (lines: readonly Line[]): Piece[][] => {
  const out: Piece[][] = [];
  let open = "";
  for (const l of lines) {
    out.push(ansi(open + l.text));
    const codes = l.text.match(/\u001b\[[\d;:]*m/g);
    if (codes) open = (open + codes.join("")).replace(/^.*\u001b\[0?m/s, "");
  }
  return out;
};
