// The text that finds runs, as the server reads it: terms between spaces. Here terms are only put together.

// terms splits a text into its terms; spaces in quotation marks end none.
export const terms = (q: string): string[] => q.match(/(?:[^\s"]|"(?:\\.|[^"\\])*"?)+/g) ?? [];

// quoted writes a value as part of a term.
export const quoted = (value: string): string => value !== "" && !/[\s"\\]/.test(value) ? value : `"${value.replace(/["\\]/g, "\\$&")}"`;

// runsOf returns the address of the list of certain runs.
export const runsOf = (q: string): string => q ? `/runs?${new URLSearchParams({ q })}` : "/runs";

// How a run is, or how soon it is due: what a view chooses.
const isState = (term: string): boolean => /^(is|deadline):/.test(term);

// inView puts a view in the place of another one; what else the text has stays.
export const inView = (q: string, view: string): string => [...terms(view), ...terms(q).filter((t) => !isState(t))].join(" ");

// viewOf returns what a text has of a view.
export const viewOf = (q: string): string => terms(q).filter(isState).join(" ");

const isPhase = /^is:(?!top$|retrying$|late$|stuck$|resting$)/;

// withPhase chooses one phase, or none where that one is chosen.
export const withPhase = (q: string, phase: string): string => {
  const term = `is:${phase.replace("_", "-")}`, chosen = phasesOf(q);
  return [...(chosen.length === 1 && chosen[0] === term ? [] : [term]), ...terms(withoutPhases(q))].join(" ");
};

export const phasesOf = (q: string): string[] => terms(q).filter((t) => isPhase.test(t));
export const withoutPhases = (q: string): string => terms(q).filter((t) => !isPhase.test(t)).join(" ");

// between chooses when runs were created; no bounds: at any time.
export const between = (q: string, from?: string, to?: string): string =>
  [...terms(q).filter((t) => !/^(newer|older):/.test(t)), ...(from ? [`newer:${from}`] : []), ...(to ? [`older:${to}`] : [])].join(" ");

// completed puts a suggestion in the place of the last term.
export function completed(q: string, term: string): string {
  const all = terms(q), last = /\s$/.test(q) ? "" : all[all.length - 1] ?? "";
  return q.slice(0, q.length - last.length) + term + (term.endsWith(":") ? "" : " ");
}

// followed says whether a stream of changes can tell which runs come to a list and leave it.
export const followed = (q: string): boolean =>
  terms(q).every((t) => /^(flow|id|parent|deadline|newer|label):/.test(t) || /^is:(?!late$|stuck$|resting$)/.test(t) || /^[^":=]+=/.test(t));
