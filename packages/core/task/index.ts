export { decideEnd, type RunnerEnd } from "./decide.ts";
export { reportEnd } from "./end.ts";
export { takeBeat, takeOutput } from "./output.ts";
export { provision } from "./provision.ts";
export { getTask, waitForTask } from "./read.ts";
export { reapTasks } from "./reap.ts";
export { start } from "./start.ts";
