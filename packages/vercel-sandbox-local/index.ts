export { type SandboxApi, startSandboxApi } from "./api.ts";
export { bwrapWorks as canIsolate } from "./isolation/bwrap.ts";
export { localFetch } from "./local-fetch.ts";
export type { Latency, Limits, SandboxApiOptions } from "./options.ts";
