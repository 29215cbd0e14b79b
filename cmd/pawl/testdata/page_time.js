// Compares what the page makes of lengths with what Pawl says of them. lengths are texts with their milliseconds. The
// answer is what differs.
import { length, parse, readLength } from "./time.ts";

const began = Date.UTC(2026, 2, 29, 0, 30); // the clocks change an hour later
const at = (ms) => new Date(began + ms).toISOString();

globalThis.differs = (lengths) => {
  const out = [];
  for (const [text, ms] of lengths) {
    if (Math.abs(readLength(text) - ms) > 1e-6) out.push(text + " is read as " + readLength(text));
    const shown = length(ms), off = ms - readLength(shown); // two units: what is smaller is left out
    if (!(Math.abs(off) <= Math.max(1, ms / 10))) out.push(ms + " ms are shown as " + shown);
  }
  if (parse(at(90 * 60000)) !== began + 90 * 60000) out.push("an instant after the change of the clocks is off");
  return out;
};
