export { type Config, ConfigError, parseConfig } from "./config.ts";
export type { Deps, EndingDeps, LaunchDeps, SandboxDeps, SealingDeps } from "./deps.ts";
export { AppError, type ErrorCode, errorTable, ProviderError, type ProviderFailure } from "./errors.ts";
export { beginning, type Cursor, formatCursor, parseCursor } from "./event/cursor.ts";
export { readEvents, readOutput } from "./event/read.ts";
export {
  type EventRecord,
  eventSchema,
  type OutputBatch,
  type ProgressRecord,
  streams,
} from "./event/schema.ts";
export { allFlags, createFlagReader, type FlagReader, isOnFor, putFlags, withFlags } from "./flags/index.ts";
export { type AllFlags, allFlagsSchema, type Flags, flagNames, flagsRequestSchema } from "./flags/schema.ts";
export { createId, sandboxName, sessionId } from "./ids.ts";
export { authenticate, type Caller, createKey } from "./key/index.ts";
export { type Key, keySchema } from "./key/schema.ts";
export * as limits from "./limits.ts";
export { type WarmSandbox, warmSchema } from "./pool/schema.ts";
export type * from "./ports.ts";
export { timerKinds } from "./ports.ts";
export { type ReapReport, reap, reapReportSchema } from "./reaper/index.ts";
export { createSealer, type Sealer, type TokenClaims } from "./seal.ts";
export { release, takeLease } from "./session/index.ts";
export { type Lease, type Session, sessionSchema } from "./session/schema.ts";
export * from "./task/index.ts";
export { fromWorkingDirectory } from "./task/launch.ts";
export {
  type ContinueRequest,
  continueRequestSchema,
  type StartRequest,
  sessionKeySchema,
  startRequestSchema,
} from "./task/request.ts";
export { isTerminal, type Status, statuses, type Task, taskSchema } from "./task/schema.ts";
export { taskViewSchema, viewTask } from "./task/view.ts";
