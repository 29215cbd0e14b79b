// Says for a few seconds what was done, with the way back where there is one.
import { signal } from "./signal.ts";

interface Said { text: string; undo: (() => void) | undefined }

const said = signal<Said | null>(null);
const shownFor = 8000; // ms
let timer: ReturnType<typeof setTimeout> | undefined;

// toast says what was done. undo takes it back.
export function toast(text: string, undo?: () => void): void {
  clearTimeout(timer);
  said.value = { text, undo };
  timer = setTimeout(() => { said.value = null; }, shownFor);
}

export const Toast = () => (
  <div class="toast" role="status">
    {said.value ? <p><bdi>{said.value.text}</bdi> {said.value.undo
      ? <button type="button" onClick={() => { const undo = said.value?.undo; said.value = null; undo?.(); }}>Undo</button> : null}</p> : null}
  </div>
);
