export { type AuditAction, type AuditEntry, auditActions, auditEntrySchema } from "./audit/schema.ts";
export { type BaseSnapshot, baseSnapshotSchema, baseSnapshotViewSchema } from "./base-snapshot/schema.ts";
export { bounds, cutTo } from "./bounds.ts";
export {
  isUnclaimed,
  type Slot,
  slotSchema,
  type UnclaimedWarmSandbox,
  type WarmSandbox,
  warmSchema,
} from "./capacity/schema.ts";
export { type Config, ConfigError, parseConfig, required } from "./config.ts";
export type {
  AcquireDeps,
  AgentAccess,
  AgentSecret,
  Deps,
  EndingDeps,
  LaunchDeps,
  SandboxDeps,
  SealingDeps,
  WebhookDeps,
} from "./deps.ts";
export {
  AppError,
  CapacityError,
  type ErrorCode,
  errorTable,
  ProviderError,
  type ProviderFailure,
  SetupError,
} from "./errors.ts";
export {
  type EventRecord,
  eventSchema,
  type OutputBatch,
  type ProgressRecord,
  type TaskEvent,
} from "./events/schema.ts";
export { allFlags, createFlagReader, type FlagReader, isOnFor, putFlags, withFlags } from "./flags/flags.ts";
export { type AllFlags, allFlagsSchema, type Flags, flagNames, flagsRequestSchema } from "./flags/schema.ts";
export { createId, firstIdAt, idTime, sandboxName, sessionId } from "./ids.ts";
export { authenticate, type Caller, hasScope, isStillValid, missingScope } from "./keys/keys.ts";
export { type Key, keySchema, type Scope, scopes } from "./keys/schema.ts";
export * as limits from "./limits.ts";
export { catalogue, type MetricDefinition } from "./metrics/catalogue.ts";
export { metricNamespace, serviceOf } from "./metrics/naming.ts";
export { type HourCounters, metricsSchema, windows } from "./metrics/schema.ts";
export { type Measure, type SuccessMetric, successMetrics, type Term } from "./metrics/targets.ts";
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
export { type Counters, costsSchema, type UsageRecord } from "./usage/schema.ts";
export {
  type Deletion,
  type Hold,
  type HoldKind,
  type Holds,
  type StoredLimits,
  type UserLimits,
  userLimitsFields,
  userLimitsRequestSchema,
  userLimitsSchema,
} from "./users/schema.ts";
export { type WebhookEvent, type WebhookSecretState, webhookEventSchema } from "./webhook/schema.ts";
