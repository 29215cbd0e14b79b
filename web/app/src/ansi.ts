// Reads what a program printed: colours become pieces with classes, and nothing else in it has an effect.

export interface Piece {
  text: string;
  style: string; // classes of the stylesheet
}

// plain shows control characters, and those that turn the direction of text, as signs of their own.
export const plain = (text: string): string =>
  text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

interface Look { colour: string; bold: boolean; dim: boolean; underline: boolean }

const none: Look = { colour: "", bold: false, dim: false, underline: false };

const classes = (l: Look) => [l.colour, l.bold && "bold", l.dim && "faint", l.underline && "under"].filter(Boolean).join(" ");

// looks applies the numbers of one sequence.
function looks(l: Look, numbers: number[]): Look {
  let out = { ...l };
  for (let i = 0; i < numbers.length; i++) {
    const n = numbers[i] ?? 0;
    if (n === 0) out = { ...none };
    else if (n === 1) out.bold = true;
    else if (n === 2) out.dim = true;
    else if (n === 4) out.underline = true;
    else if (n === 22) { out.bold = false; out.dim = false; }
    else if (n === 24) out.underline = false;
    else if (n >= 30 && n <= 37) out.colour = `c${n - 30}`;
    else if (n >= 90 && n <= 97) out.colour = `c${n - 90}`;
    else if (n === 39) out.colour = "";
    else if (n === 38 || n === 48) i += numbers[i + 1] === 5 ? 2 : 4; // one of 256 colours, or red, green and blue
  }
  return out;
}

// ansi splits a text at its colours. Of a line that a program wrote several times over, the last writing stays.
export function ansi(text: string): Piece[] {
  const lines = text.replaceAll("\r\n", "\n").replace(/[^\n]*\r(?=[^\n])/g, "");
  const out: Piece[] = [];
  let look = none, from = 0;
  const add = (part: string) => { if (part !== "") out.push({ text: plain(part), style: classes(look) }); };
  for (const m of lines.matchAll(/\u001b(?:\[([\d;:]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g)) {
    add(lines.slice(from, m.index));
    from = m.index + m[0].length;
    if (m[2] === "m") look = looks(look, (m[1] ?? "").split(/[;:]/).map(Number));
  }
  add(lines.slice(from));
  return out;
}
