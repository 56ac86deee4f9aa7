import { timerKinds } from "../ports.ts";
import { origins, taskErrorCodes } from "../task/schema.ts";

/** What a metric is by: CloudWatch keeps each value apart, beside the sum of all. */
interface Dimension {
  name: string;
  /** None where they are not known here: the steps of getting a room name themselves. */
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

/** Everything that is counted, once: its unit, what it says, and what it is by. */
export const catalogue = {
  // Task: creation, execution, completion.
  turn_queued: {
    unit: "Count",
    says: "Turns asked for",
    by: { name: "verb", values: ["start", "continue"] },
  },
  turn_ended: {
    unit: "Count",
    says: "Turns that ended",
    by: { name: "outcome", values: ["succeeded", ...taskErrorCodes] },
  },
  queued_ms: { unit: "Milliseconds", says: "From the request to the worker that took the turn" },
  provision_ms: { unit: "Milliseconds", says: "From the worker's claim to the running agent" },
  agent_ms: { unit: "Milliseconds", says: "From the running agent to the turn's end, the push not counted" },
  turn_ms: { unit: "Milliseconds", says: "From the request to the turn's end: what the user waits" },
  turn_continued: {
    unit: "Count",
    says: "Turns that were not the first, with what the ones before had left, or without",
    by: { name: "context", values: ["kept", "lost"] },
  },

  // Sandbox: create, health check, resume or recreate, terminate.
  room_given: {
    unit: "Count",
    says: "Turns that got their sandbox",
    by: { name: "origin", values: origins },
  },
  room_ms: { unit: "Milliseconds", says: "What getting it took", by: { name: "origin", values: origins } },
  room_step_ms: {
    unit: "Milliseconds",
    says: "What each step of it took",
    by: { name: "step", values: undefined },
  },
  room_idle_ms: {
    unit: "Milliseconds",
    says: "How long a sandbox was kept for nobody, until it was used again or given up",
    by: { name: "fate", values: ["used", "released"] },
  },
  room_replaced: {
    unit: "Count",
    says: "Turns that got another sandbox than the session had",
    by: { name: "reason", values: reasons },
  },
  room_refused: { unit: "Count", says: "Requests refused because every sandbox was in use" },
  room_released: { unit: "Count", says: "Sandboxes given up" },
  health_healthy: { unit: "Count", says: "Looks at a sandbox that found it well" },
  health_resumable: { unit: "Count", says: "Looks that found it stopped, its files kept" },
  health_gone: { unit: "Count", says: "Looks that found it gone" },
  health_unknown: { unit: "Count", says: "Looks that the provider did not answer" },
  recreated: {
    unit: "Count",
    says: "Tries to replace a sandbox that was gone",
    by: { name: "outcome", values: tried },
  },
  resumed: {
    unit: "Count",
    says: "Tries to resume a sandbox that was stopped",
    by: { name: "outcome", values: tried },
  },
  reinstall_loop: { unit: "Count", says: "Turns whose new sandbox was gone again and again" },

  // Stop: request, lookup, termination, confirmation.
  stop_requested: { unit: "Count", says: "Stops asked for by users" },
  stop_begun: {
    unit: "Count",
    says: "Turns that were told to end: from here no push is granted",
    by: { name: "cause", values: taskErrorCodes },
  },
  stop_lookup_ms: {
    unit: "Milliseconds",
    says: "From a user's stop to the record that says what is to be ended",
  },
  stop_proven: {
    unit: "Count",
    says: "Turns whose death was proven",
    by: { name: "cause", values: taskErrorCodes },
  },
  stop_unproven: {
    unit: "Count",
    says: "Tries to prove a death that failed; each is made again",
    by: { name: "cause", values: taskErrorCodes },
  },
  stop_ms: {
    unit: "Milliseconds",
    says: "From the record that says so to the proof",
    by: { name: "cause", values: taskErrorCodes },
  },
  cancellation_told: {
    unit: "Count",
    says: "Runners told to stop by the answer to their own call",
    by: { name: "reason", values: ["stopping", "ended", "superseded", "unknown"] },
  },
  cancellation_told_ms: {
    unit: "Milliseconds",
    says: "From the stop's record to the runner that heard of it by its own call",
  },
  push_granted: { unit: "Count", says: "Pushes that were granted" },
  push_refused: {
    unit: "Count",
    says: "Pushes that were refused, because the turn was ending, over or late",
  },
  push_unexpected: {
    unit: "Count",
    says: "Pushes reported that were never granted, by what the turn was at",
    by: { name: "after", values: ["stopped", "timed_out", "other"] },
  },

  // Timeouts, and who enforces them.
  timeout_ended: { unit: "Count", says: "Turns found past their deadline" },
  silence_asked: {
    unit: "Count",
    says: "Silent turns whose sandbox was asked before they were ended",
    by: { name: "found", values: ["silent", "alive", "lost", "no_answer", "runner_lost"] },
  },
  stuck_late_ms: {
    unit: "Milliseconds",
    says: "From when an agent counted as silent to the record that ends its turn",
  },
  timer_late_ms: {
    unit: "Milliseconds",
    says: "How late a timer acted, by the deadline that is stored",
    by: { name: "kind", values: timerKinds },
  },
  reap_ms: { unit: "Milliseconds", says: "What a sweep took; none is a reaper that does not run" },
  reap_overdue_ms: {
    unit: "Milliseconds",
    says: "How long the tasks that a sweep looked after had been due",
  },
  reap_incomplete: { unit: "Count", says: "Sweeps that ran out of time" },
  reap_failures: { unit: "Count", says: "What a sweep could not do" },
  orphan_found: { unit: "Count", says: "Sandboxes that no session names" },
  orphan_deleted: { unit: "Count", says: "The same, deleted" },

  // Pool and money.
  pool_sandboxes: { unit: "Count", says: "Sandboxes there are, at each sweep" },
  pool_users: { unit: "Count", says: "Users who have one, at each sweep" },
  user_active: { unit: "Count", says: "Users with a turn that day, each once" },
  vcpu_ms: {
    unit: "Milliseconds",
    says: "vCPU time of getting sandboxes and of running agents, of each turn",
  },
  cost_microusd: { unit: "Count", says: "Millionths of a dollar of sandboxes, turns and idle rooms alike" },
  agent_cost_microusd: {
    unit: "Count",
    says: "Millionths of a dollar that agents say their models cost, of each turn",
  },

  // The functions themselves.
  http_requests: { unit: "Count", says: "Requests answered, runners' calls among them" },
  http_errors: { unit: "Count", says: "Requests answered with a 5xx" },
  messages: { unit: "Count", says: "Messages worked on", by: { name: "function", values: queueFunctions } },
  message_errors: {
    unit: "Count",
    says: "Messages that failed, and come again",
    by: { name: "function", values: queueFunctions },
  },
  webhook_delivered: { unit: "Count", says: "Webhooks delivered" },
  webhook_failed: { unit: "Count", says: "Webhooks that were not, and are tried again" },
  webhook_refused: { unit: "Count", says: "Webhooks that must not be sent, or are not wanted" },
} as const satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof catalogue;

type Catalogue = typeof catalogue;
type MetricBy = {
  [Name in MetricName]: Catalogue[Name] extends { by: Dimension } ? Name : never;
}[MetricName];
type DimensionsOf<Name extends MetricBy> = Readonly<Record<Catalogue[Name]["by"]["name"], string>>;

/** Things that happened, each counted once where it happened. What is by something is never counted without it. */
export interface Metrics {
  count(name: Exclude<MetricName, MetricBy>, value?: number): void;
  count<Name extends MetricBy>(name: Name, value: number, dimensions: DimensionsOf<Name>): void;
}
