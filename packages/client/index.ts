export { type CallOptions, type Client, createClient, type IdempotentOptions } from "./client.ts";
export { type ClientErrorCode, ConciergeError, type Problem } from "./errors.ts";
export type { EventsOptions, TaskEvent } from "./events.ts";
export type { ClientOptions, Retry } from "./http.ts";
export type { components, paths } from "./schema.gen.ts";
export {
  type AuditEntry,
  type ContinueRequest,
  type Costs,
  type ExecRequest,
  type ExecResult,
  type Flags,
  type FlagsRequest,
  isTerminal,
  type Key,
  type KeyRequest,
  type Me,
  type Metrics,
  type Pool,
  type ReapReport,
  type Session,
  type StartRequest,
  type Task,
  type TaskStatus,
  type UserLimits,
  type UserLimitsRequest,
} from "./types.ts";
