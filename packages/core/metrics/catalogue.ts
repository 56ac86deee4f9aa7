import { timerKinds } from "../ports.ts";
import { origins, taskErrorCodes } from "../task/schema.ts";

/** A metric's dimension. CloudWatch keeps each value separately, and their sum. */
interface Dimension {
  name: string;
  /** Undefined if the values are not known in advance, such as step names. */
  values: readonly string[] | undefined;
}

export interface MetricDefinition {
  unit: "Count" | "Milliseconds";
  says: string;
  by?: Dimension;
}

const reasons = ["gone", "released", "max_life"] as const;
const tried = ["done", "failed"] as const;
const queueFunctions = ["Worker", "Timer", "Webhook"] as const;

/** Every metric: unit, meaning and dimension. */
export const catalogue = {
  // Task: creation, execution, completion.
  turn_queued: {
    unit: "Count",
    says: "Turns requested",
    by: { name: "verb", values: ["start", "continue"] },
  },
  turn_ended: {
    unit: "Count",
    says: "Turns that ended",
    by: { name: "outcome", values: ["succeeded", ...taskErrorCodes] },
  },
  queued_ms: { unit: "Milliseconds", says: "From the request to the worker's claim" },
  provision_ms: { unit: "Milliseconds", says: "From the worker's claim to the running agent" },
  agent_ms: { unit: "Milliseconds", says: "From the running agent to the turn's end, without the push" },
  turn_ms: { unit: "Milliseconds", says: "From the request to the turn's end: how long the user waits" },
  turn_continued: {
    unit: "Count",
    says: "Continued turns, by whether the context was kept",
    by: { name: "context", values: ["kept", "lost"] },
  },

  // Sandbox: create, health check, resume or recreate, terminate.
  room_given: {
    unit: "Count",
    says: "Turns that got their sandbox",
    by: { name: "origin", values: origins },
  },
  room_ms: { unit: "Milliseconds", says: "Time to acquire it", by: { name: "origin", values: origins } },
  room_step_ms: {
    unit: "Milliseconds",
    says: "Time of each step",
    by: { name: "step", values: undefined },
  },
  room_idle_ms: {
    unit: "Milliseconds",
    says: "How long a sandbox was idle until it was used again or released",
    by: { name: "fate", values: ["used", "released"] },
  },
  room_replaced: {
    unit: "Count",
    says: "Turns that got a different sandbox than the session had",
    by: { name: "reason", values: reasons },
  },
  limit_refused: {
    unit: "Count",
    says: "Requests refused because a user was at a limit",
    by: {
      name: "limit",
      values: ["rate_limited", "task_limit", "queue_limit", "stream_limit", "spend_limit"],
    },
  },
  webhook_delayed: { unit: "Count", says: "Webhooks that waited because their user had many under way" },
  room_refused: { unit: "Count", says: "Requests refused because all sandboxes were in use" },
  room_released: { unit: "Count", says: "Sandboxes released" },
  health_healthy: { unit: "Count", says: "Probes that found a healthy sandbox" },
  health_resumable: { unit: "Count", says: "Probes that found a stopped sandbox with its files" },
  health_gone: { unit: "Count", says: "Probes that found no sandbox" },
  health_unknown: { unit: "Count", says: "Probes without an answer" },
  recreated: {
    unit: "Count",
    says: "Attempts to replace a lost sandbox",
    by: { name: "outcome", values: tried },
  },
  resumed: {
    unit: "Count",
    says: "Attempts to resume a stopped sandbox",
    by: { name: "outcome", values: tried },
  },
  reinstall_loop: { unit: "Count", says: "Turns whose new sandbox was lost repeatedly" },

  // Stop: request, lookup, termination, confirmation.
  stop_requested: { unit: "Count", says: "Stops requested by users" },
  stop_begun: {
    unit: "Count",
    says: "Turns recorded as ending: from here on no push is granted",
    by: { name: "cause", values: taskErrorCodes },
  },
  stop_lookup_ms: {
    unit: "Milliseconds",
    says: "From a user's stop to the record of it",
  },
  stop_proven: {
    unit: "Count",
    says: "Turns proven dead",
    by: { name: "cause", values: taskErrorCodes },
  },
  stop_unproven: {
    unit: "Count",
    says: "Failed attempts to prove a death; each is retried",
    by: { name: "cause", values: taskErrorCodes },
  },
  stop_ms: {
    unit: "Milliseconds",
    says: "From the record of the stop to the proof",
    by: { name: "cause", values: taskErrorCodes },
  },
  cancellation_told: {
    unit: "Count",
    says: "Runners told to stop in the response to their own request",
    by: { name: "reason", values: ["stopping", "ended", "superseded", "unknown"] },
  },
  cancellation_told_ms: {
    unit: "Milliseconds",
    says: "From the record of the stop to the response that told the runner",
  },
  push_granted: { unit: "Count", says: "Pushes granted" },
  push_refused: {
    unit: "Count",
    says: "Pushes refused because the turn was ending, ended or late",
  },
  push_unexpected: {
    unit: "Count",
    says: "Pushes reported without a grant, by the turn's status",
    by: { name: "after", values: ["stopped", "timed_out", "other"] },
  },

  // Timeouts, and who enforces them.
  timeout_ended: { unit: "Count", says: "Turns past their deadline" },
  silence_asked: {
    unit: "Count",
    says: "Silent turns whose sandbox was asked before ending them",
    by: { name: "found", values: ["silent", "alive", "lost", "no_answer", "runner_lost"] },
  },
  stuck_late_ms: {
    unit: "Milliseconds",
    says: "From the moment an agent counted as silent to the record that ends its turn",
  },
  timer_late_ms: {
    unit: "Milliseconds",
    says: "How late a timer acted, compared with the stored deadline",
    by: { name: "kind", values: timerKinds },
  },
  reap_ms: {
    unit: "Milliseconds",
    says: "Duration of a reaper pass; missing data means the reaper does not run",
  },
  reap_overdue_ms: {
    unit: "Milliseconds",
    says: "How long the tasks handled by a pass had been due",
  },
  reap_incomplete: { unit: "Count", says: "Passes that ran out of time" },
  reap_failures: { unit: "Count", says: "Failures in a pass" },
  orphan_found: { unit: "Count", says: "Sandboxes in no record" },
  orphan_deleted: { unit: "Count", says: "Sandboxes in no record that were deleted" },

  // Pool and money.
  pool_sandboxes: { unit: "Count", says: "Sandboxes, at each pass" },
  pool_users: { unit: "Count", says: "Users with a sandbox, at each pass" },
  user_active: { unit: "Count", says: "Users with a turn that day, each counted once" },
  vcpu_ms: {
    unit: "Milliseconds",
    says: "vCPU time per turn, for acquiring sandboxes and running agents",
  },
  cost_microusd: { unit: "Count", says: "Millionths of a dollar for sandboxes, in turns and idle" },
  agent_cost_microusd: {
    unit: "Count",
    says: "Millionths of a dollar per turn for models, as reported by agents",
  },

  // The functions themselves.
  http_requests: { unit: "Count", says: "Requests answered, including runners' requests" },
  http_errors: { unit: "Count", says: "Requests answered with a 5xx" },
  messages: { unit: "Count", says: "Messages handled", by: { name: "function", values: queueFunctions } },
  message_errors: {
    unit: "Count",
    says: "Messages that failed and come again",
    by: { name: "function", values: queueFunctions },
  },
  webhook_delivered: { unit: "Count", says: "Webhooks delivered" },
  webhook_failed: { unit: "Count", says: "Webhooks that failed and are retried" },
  webhook_refused: { unit: "Count", says: "Webhooks that are forbidden or were refused" },
} as const satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof catalogue;

type Catalogue = typeof catalogue;
type MetricBy = {
  [Name in MetricName]: Catalogue[Name] extends { by: Dimension } ? Name : never;
}[MetricName];
type DimensionsOf<Name extends MetricBy> = Readonly<Record<Catalogue[Name]["by"]["name"], string>>;

/** Counts things where they happen. A metric with a dimension is never counted without it. */
export interface Metrics {
  count(name: Exclude<MetricName, MetricBy>, value?: number): void;
  count<Name extends MetricBy>(name: Name, value: number, dimensions: DimensionsOf<Name>): void;
}
