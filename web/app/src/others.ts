// The pages behind the first one, in one file: together they are far smaller than apart.
import "./main.tsx"; // so that it is in the part that all need, and no file of its own
export { Audit, Tokens } from "./access.tsx";
export { Compare } from "./compare.tsx";
export { Lab } from "./lab.tsx";
export { Flows } from "./flows.tsx";
export { Palette } from "./palette.tsx";
export { Queues } from "./queues.tsx";
export { RunPage } from "./run.tsx";
export { Runs } from "./runs.tsx";
export { Start } from "./start.tsx";
export { Deadlines, Schedules } from "./watch.tsx";
export { Webhooks } from "./webhooks.tsx";
