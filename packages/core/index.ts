export { type Base, baseSchema, baseViewSchema } from "./base/schema.ts";
export { bounds, cutTo } from "./bounds.ts";
export { type Config, ConfigError, parseConfig, required } from "./config.ts";
export { type Counters, costsSchema, type UsageRecord } from "./cost/schema.ts";
export type {
  AgentAccess,
  AgentSecret,
  Deps,
  EndingDeps,
  LaunchDeps,
  RoomDeps,
  SandboxDeps,
  SealingDeps,
  SessionDeps,
  WebhookDeps,
} from "./deps.ts";
export {
  AppError,
  type ErrorCode,
  errorTable,
  NoRoomError,
  ProviderError,
  type ProviderFailure,
  SetupError,
} from "./errors.ts";
export {
  type AgentEvent,
  agentEventSchema,
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
export { lazily } from "./lazy.ts";
export * as limits from "./limits.ts";
export { catalogue, type MetricDefinition } from "./metrics/catalogue.ts";
export { metricNamespace, serviceOf } from "./metrics/naming.ts";
export { type Measure, type SuccessMetric, successMetrics, type Term } from "./metrics/targets.ts";
export {
  isUnclaimed,
  type Slot,
  slotSchema,
  type UnclaimedWarmSandbox,
  type WarmSandbox,
  warmSchema,
} from "./pool/schema.ts";
export type * from "./ports.ts";
export { timerKinds } from "./ports.ts";
export { createSealer, type Sealer, type TokenClaims } from "./seal.ts";
export {
  type Environment,
  type Lease,
  type ReadySandbox,
  type Session,
  type SessionSandbox,
  sessionSchema,
} from "./session/schema.ts";
export { getTask, waitForTask } from "./task/read.ts";
export {
  type ContinueRequest,
  continueRequestSchema,
  type StartRequest,
  sessionKeySchema,
  startRequestSchema,
  withoutNul,
} from "./task/request.ts";
export {
  type Agent,
  agents,
  isTerminal,
  type Origin,
  type Status,
  statuses,
  type Task,
  taskSchema,
} from "./task/schema.ts";
export { showTask, taskViewSchema } from "./task/view.ts";
export { type WebhookEvent, webhookEventSchema } from "./webhook/schema.ts";
