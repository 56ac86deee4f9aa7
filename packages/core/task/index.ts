export { continueTask } from "./continue.ts";
export type { RunnerEnd } from "./decide.ts";
export { reportEnd } from "./end.ts";
export { grantClone, grantPush } from "./finalize.ts";
export { takeBeat, takeOutput } from "./output.ts";
export { start } from "./start.ts";
export { stop } from "./stop.ts";
export { fireTimer } from "./timer.ts";
