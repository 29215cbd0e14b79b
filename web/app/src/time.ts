// Lengths and instants as people read them. A length is in milliseconds.

// parse reads an instant of the API; NaN: there is none.
export const parse = (at: string | undefined): number => (at ? Date.parse(at) : NaN);

const units: [string, number][] = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000]];

// length writes a length with its two largest units: 1h30m, 12s, 250ms.
export function length(ms: number): string {
  if (!Number.isFinite(ms)) return "";
  if (ms < 0) return "-" + length(-ms);
  if (ms < 1000) return `${Math.round(ms)}ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toString()}s`;
  let rest = Math.floor(ms / 1000) * 1000;
  const parts: string[] = [];
  for (const [name, size] of units) {
    const n = Math.floor(rest / size);
    if (n > 0 && parts.length < 2) parts.push(n + name);
    if (parts.length === 0 || parts.length < 2) rest -= n * size;
    if (parts.length > 0 && n === 0 && name !== "d") break;
  }
  return parts.join("");
}

// readLength reads a length of the API or of a person, such as 1h30m or 250ms; NaN: it is none.
export function readLength(text: string | undefined): number {
  if (!text) return NaN;
  let sum = 0;
  let rest = text.trim();
  const sizes: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  while (rest !== "") {
    const m = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*/.exec(rest);
    if (!m) return NaN;
    sum += Number(m[1]) * (sizes[m[2] ?? ""] ?? NaN);
    rest = rest.slice(m[0].length);
  }
  return sum;
}

const two = (n: number) => String(n).padStart(2, "0");

// instant writes an instant: today's as a time of day, others with their date.
export function instant(at: number, utc: boolean, now = Date.now()): string {
  if (!Number.isFinite(at)) return "";
  const d = new Date(utc ? at : at - new Date(at).getTimezoneOffset() * 60_000);
  const today = new Date(utc ? now : now - new Date(now).getTimezoneOffset() * 60_000);
  const time = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}`;
  const day = d.toISOString().slice(0, 10);
  return day === today.toISOString().slice(0, 10) ? time : `${day} ${time}`;
}
