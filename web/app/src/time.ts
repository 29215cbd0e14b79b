// Lengths and instants as people read them. A length is in milliseconds.

// parse reads an instant of the API; NaN: there is none.
export const parse = (at: string | undefined): number => (at ? Date.parse(at) : NaN);

const two = (n: number) => String(n).padStart(2, "0");

// length writes a length as the server does, three digits of it: 320ms, 4.2s, 42s, 3m10s, 2h05m, 6d23h, and 5m where
// nothing follows.
export function length(ms: number): string {
  if (!Number.isFinite(ms)) return "";
  if (ms < 0) return "-" + length(-ms);
  const s = Math.floor(ms / 1000), m = Math.floor(s / 60), h = Math.floor(m / 60);
  const pair = (n: number, unit: string, rest: number, small: string) => n + unit + (rest > 0 ? two(rest) + small : "");
  if (ms < 1) return "0s";
  if (s < 1) return `${Math.floor(ms)}ms`;
  if (s < 10) return `${Math.floor(ms / 100) / 10}s`;
  if (m < 1) return `${s}s`;
  if (h < 1) return pair(m, "m", s % 60, "s");
  return h < 24 ? pair(h, "h", m % 60, "m") : pair(Math.floor(h / 24), "d", h % 24, "h");
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

// instant writes an instant: today's as a time of day, others with their date; precise: with its milliseconds.
export function instant(at: number, utc: boolean, precise = false, now = Date.now()): string {
  if (!Number.isFinite(at)) return "";
  const d = new Date(utc ? at : at - new Date(at).getTimezoneOffset() * 60_000);
  const today = new Date(utc ? now : now - new Date(now).getTimezoneOffset() * 60_000);
  const time = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}`;
  const day = d.toISOString().slice(0, 10), more = precise ? "." + String(d.getUTCMilliseconds()).padStart(3, "0") : "";
  return day === today.toISOString().slice(0, 10) ? time + more : `${day} ${time}${more}`;
}
