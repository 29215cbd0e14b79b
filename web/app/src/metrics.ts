// Reads what the server counts, and what of it has happened between two looks.

export interface Sample {
  at: number;
  values: ReadonlyMap<string, number>; // by the name with its labels, as the server writes it
}

const line = /^(pawl_[a-z_]+)(?:\{(.*)\})? (\S+)$/;

// readMetrics reads the text of one look. Other namespaces are left out.
export function readMetrics(text: string, at: number, namespace: string): Sample {
  const values = new Map<string, number>();
  for (const l of text.split("\n")) {
    const m = line.exec(l);
    if (!m) continue;
    const labels = labelsOf(m[2] ?? "");
    if ((labels.get("namespace") ?? namespace) !== namespace) continue;
    labels.delete("namespace");
    values.set([m[1], ...[...labels].sort().flat()].join("\u0000"), Number(m[3]));
  }
  return { at, values };
}

function labelsOf(text: string): Map<string, string> {
  const out = new Map<string, string>();
  for (const m of text.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) {
    out.set(m[1] ?? "", (m[2] ?? "").replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c)));
  }
  return out;
}

// sums adds the values of a metric by one of its labels, of those with the other labels that are given.
export function sums(s: Sample | undefined, metric: string, label: string, given: Record<string, string> = {}): Map<string, number> {
  const out = new Map<string, number>();
  for (const [key, n] of s?.values ?? []) {
    const [name, ...labels] = key.split("\u0000");
    if (name !== metric) continue;
    const value = (l: string) => labels[labels.findIndex((x, at) => at % 2 === 0 && x === l) + 1] ?? "";
    if (Object.entries(given).some(([l, v]) => value(l) !== v)) continue;
    const i = labels.findIndex((l, at) => at % 2 === 0 && l === label);
    const of = i < 0 ? "" : labels[i + 1] ?? "";
    out.set(of, (out.get(of) ?? 0) + n);
  }
  return out;
}

export const total = (s: Sample | undefined, metric: string): number => [...sums(s, metric, "").values()].reduce((a, b) => a + b, 0);

// within returns the length in seconds within which a share of what a histogram has counted lies, for one value of a
// label; what was counted before the other look is left out. NaN: nothing was counted.
export function within(s: Sample, before: Sample | undefined, metric: string, label: string, of: string, share: number): number {
  const buckets = new Map<number, number>();
  const add = (from: Sample | undefined, sign: number) => {
    for (const [key, n] of from?.values ?? []) {
      const [name, ...labels] = key.split("\u0000");
      if (name !== `${metric}_bucket`) continue;
      const value = (l: string) => labels[labels.findIndex((x, at) => at % 2 === 0 && x === l) + 1] ?? "";
      if (value(label) !== of) continue;
      const le = value("le") === "+Inf" ? Infinity : Number(value("le"));
      buckets.set(le, (buckets.get(le) ?? 0) + sign * n);
    }
  };
  add(s, 1);
  add(before, -1);
  const sorted = [...buckets].sort((a, b) => a[0] - b[0]);
  const all = sorted[sorted.length - 1]?.[1] ?? 0;
  if (all <= 0) return NaN;
  return sorted.find(([, n]) => n >= all * share)?.[0] ?? Infinity;
}
