// The pages that few look at, in one file of their own.
export { Audit, Tokens } from "./access.tsx";
export { Lab, Otherwise } from "./lab.tsx";
export { Flows } from "./flows.tsx";
export { Palette } from "./palette.tsx";
export { Queues } from "./queues.tsx";
export { Start } from "./start.tsx";
export { Deadlines, Schedules } from "./watch.tsx";
export { Webhooks } from "./webhooks.tsx";
