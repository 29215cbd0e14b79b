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

// labelOf returns the value of a label in the rest of a sample's name, where each label is followed by its value.
// Without that label it is empty.
function labelOf(labels: readonly string[], label: string): string {
  const i = labels.findIndex((l, at) => at % 2 === 0 && l === label);
  return i < 0 ? "" : labels[i + 1] ?? "";
}

// sums adds the values of a metric by one of its labels, of those with the other labels that are given.
export function sums(s: Sample | undefined, metric: string, label: string, given: Record<string, string> = {}): Map<string, number> {
  const out = new Map<string, number>();
  for (const [key, n] of s?.values ?? []) {
    const [name, ...labels] = key.split("\u0000");
    if (name !== metric) continue;
    if (Object.entries(given).some(([l, v]) => labelOf(labels, l) !== v)) continue;
    const of = labelOf(labels, label);
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
      if (labelOf(labels, label) !== of) continue;
      const le = labelOf(labels, "le");
      const upTo = le === "+Inf" ? Infinity : Number(le);
      buckets.set(upTo, (buckets.get(upTo) ?? 0) + sign * n);
    }
  };
  add(s, 1);
  add(before, -1);
  const sorted = [...buckets].sort((a, b) => a[0] - b[0]);
  const all = sorted[sorted.length - 1]?.[1] ?? 0;
  if (all <= 0) return NaN;
  return sorted.find(([, n]) => n >= all * share)?.[0] ?? Infinity;
}
