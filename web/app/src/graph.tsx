// The steps of a flow and what needs what.
import { useMemo } from "preact/hooks";
import type { Run } from "./api.ts";
import { lay } from "./layered.ts";
import { stateOf } from "./states.ts";

const most = 400; // steps that are laid out
const height = 30;

const nodesOf = (plan: NonNullable<Run["plan"]>) =>
  plan.map((p) => ({ name: p.name, width: Math.min(p.name.length, 24) * 7.6 + 24, needs: p.needs ?? [] }));

// phaseOf is the phase of a step of the plan: pending until the run comes to it.
const phaseOf = (run: Run, name: string): string => {
  const all = (run.steps ?? []).filter((s) => s.name === name || s.step === name || s.group === name);
  return (all.find((s) => s.kind === "group") ?? all.find((s) => s.step === name) ?? all[0])?.phase ?? "pending";
};

export function Graph({ run, selected, onSelect }: { run: Run; selected: string | null; onSelect: (step: string) => void }) {
  const plan = run.plan ?? [];
  const laid = useMemo(() => plan.length > 0 && plan.length <= most ? lay(nodesOf(plan)) : null, [JSON.stringify(plan)]);
  if (!laid) return <p class="dim">{plan.length > most ? `It has ${plan.length} steps, too many for a picture. The timeline has them all.` : "The steps of this workflow are known as it goes on. The timeline has those it has come to."}</p>;
  const begun = new Set((run.steps ?? []).map((s) => s.step));
  return (
    <div class="graph" tabIndex={0} aria-label="Which step needs which">
      <svg width={laid.width} height={laid.height} role="img" aria-label={`${plan.length} steps`}>
        <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0L8,4L0,8z" class="head" /></marker></defs>
        {laid.edges.map((d, i) => <path key={i} class="edge" d={d} marker-end="url(#arrow)" />)}
        {laid.nodes.map((n) => (
          <g key={n.name} class={`node ${stateOf(phaseOf(run, n.name)).tone}${begun.has(n.name) ? "" : " pending"}${selected === n.name ? " selected" : ""}${begun.has(n.name) ? " row" : ""}`}
            transform={`translate(${n.x - n.width / 2},${n.y - height / 2})`} onClick={() => { if (begun.has(n.name)) onSelect(n.name); }}>
            <rect width={n.width} height={height} rx={6} />
            <text x={n.width / 2} y={19}>{n.name.length > 24 ? n.name.slice(0, 23) + "…" : n.name}<title>{n.name}: {begun.has(n.name) ? stateOf(phaseOf(run, n.name)).word : "not begun"}</title></text>
          </g>
        ))}
      </svg>
    </div>
  );
}
