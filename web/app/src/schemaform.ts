// Fields of a form, from the JSON Schema that a flow gives for its input.

export interface Field {
  name: string;
  type: string; // string, integer, number, boolean, object, array
  required: boolean;
  says: string;
  preset: string;
  choices: string[];
  min?: number;
  max?: number;
  minLength?: number;
  maxLength?: number;
}

interface Schema {
  type?: string; description?: string; default?: unknown; enum?: unknown[]; properties?: Record<string, Schema>; required?: string[];
  minimum?: number; maximum?: number; minLength?: number; maxLength?: number;
}

const written = (v: unknown): string => v === undefined ? "" : typeof v === "string" ? v : JSON.stringify(v);

// fields reads what a flow says of its input; none: it says nothing.
export function fields(input: unknown): Field[] {
  const schema = input as Schema | undefined;
  const required = new Set(schema?.required ?? []);
  return Object.entries(schema?.properties ?? {}).map(([name, s]) => ({
    name, type: s.type ?? (s.enum ? "enum" : "object"), required: required.has(name), says: s.description ?? "", preset: written(s.default),
    choices: s.type === "boolean" ? ["true", "false"] : (s.enum ?? []).map(written),
    min: s.minimum, max: s.maximum, minLength: s.minLength, maxLength: s.maxLength,
  }));
}

// inputOf is the input that a filled form gives. What was left empty and may be is not in it.
export function inputOf(form: Field[], values: Record<string, string>): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const f of form) {
    const v = values[f.name] ?? "";
    if (v === "" && !f.required) continue;
    if (f.type === "string") out[f.name] = v;
    else if (f.type === "enum") out[f.name] = v.startsWith('"') || !/^(true|false|null|-?[\d.]+)$/.test(v) ? v : JSON.parse(v);
    else {
      try {
        out[f.name] = JSON.parse(v) as unknown;
      } catch {
        throw new Error(`${f.name}: "${v}" is no ${f.type}`);
      }
    }
  }
  return out;
}
