// What differs between two policies, part by part.

export interface Changed { part: string; was: string; is: string }

function flat(of: unknown, path: string, out: Map<string, string>): Map<string, string> {
  if (typeof of === "object" && of !== null && !Array.isArray(of)) {
    for (const [key, value] of Object.entries(of)) if (key !== "origin") flat(value, path ? `${path}.${key}` : key, out);
  } else if (of !== undefined) out.set(path, Array.isArray(of) ? of.join(", ") : String(of));
  return out;
}

// changed lists the parts of two policies that differ; where they were set does not count.
export function changed(was: unknown, is: unknown): Changed[] {
  const a = flat(was ?? {}, "", new Map()), b = flat(is ?? {}, "", new Map());
  return [...new Set([...a.keys(), ...b.keys()])].filter((k) => a.get(k) !== b.get(k))
    .map((part) => ({ part, was: a.get(part) ?? "not set", is: b.get(part) ?? "not set" }));
}
