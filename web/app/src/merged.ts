// Makes one run of what one had of it and what has changed since.
import type { components } from "./schema.d.ts";

type Run = components["schemas"]["Run"];

// merged returns a run as it is now. Of a part, the steps that it does not have are as they were, and so are the objects.
export function merged(last: Run, now: Run): Run {
  if (!now.partial || now.run !== last.run) return now;
  const fresh = new Map((now.steps ?? []).map((s) => [s.id, s]));
  const steps = (last.steps ?? []).map((s) => {
    const to = fresh.get(s.id) ?? s;
    fresh.delete(s.id);
    return to;
  });
  const all = [...steps, ...fresh.values()].sort((a, b) => a.id - b.id);
  return { ...now, partial: false, input: last.input, plan: last.plan, steps: all };
}
