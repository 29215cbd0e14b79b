// Where something was set: the text of the file that the run's definition keeps, and the line in it.

export interface Place { file: string; line: number }

// placeOf reads "order.yaml:12:5"; null: it names no line.
export function placeOf(origin: string): Place | null {
  const [, file, line] = /^(.*?):(\d+)(?::\d+)?$/.exec(origin) ?? [];
  return file && line ? { file, line: Number(line) } : null;
}

interface Stored { file?: string; text?: string; files?: Record<string, string> }

// textOf finds the text of a file in the stored source of a flow: its own, one of a child flow, or of a template.
export function textOf(source: string, file: string): string | undefined {
  let b: { flow?: Stored; children?: Stored[] };
  try {
    b = JSON.parse(source) as typeof b;
  } catch {
    return undefined; // it is of another kind
  }
  const all = [b.flow ?? {}, ...(b.children ?? [])], base = file.split("/").pop();
  return all.find((s) => s.file === file)?.text ?? all.flatMap((s) => Object.entries(s.files ?? {})).find(([path]) => path.split("/").pop() === base)?.[1];
}
