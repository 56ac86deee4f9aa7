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
const queueFunctions = ["Worker", "Timer"] as const;

/** Everything that is counted, once: its unit, what it says, and what it is by. */
export const catalogue = {
  // Task: creation, execution, completion.
  turn_queued: count("Turns asked for", { name: "verb", values: ["start", "continue"] }),
  turn_ended: count("Turns that ended", { name: "outcome", values: ["succeeded", ...taskErrorCodes] }),
  queued_ms: ms("From the request to the worker that took the turn"),
  provision_ms: ms("From the worker's claim to the running agent"),
  agent_ms: ms("From the running agent to the turn's end, the push not counted"),
  turn_ms: ms("From the request to the turn's end: what the user waits"),
  context: count("Turns that went on in a conversation, by what became of what it had", {
    name: "fate",
    values: ["kept", "lost"],
  }),

  // Sandbox: create, health check, resume or recreate, terminate.
  room_given: count("Turns that got their sandbox", { name: "origin", values: origins }),
  room_ms: ms("What getting it took", { name: "origin", values: origins }),
  room_step_ms: ms("What each step of it took", { name: "step", values: undefined }),
  room_idle_ms: ms("How long a sandbox was kept for nobody, until it was used again or given up", {
    name: "fate",
    values: ["used", "released"],
  }),
  room_replaced: count("Turns that got another sandbox than the session had", {
    name: "reason",
    values: reasons,
  }),
  room_refused: count("Requests refused because every sandbox was in use"),
  room_released: count("Sandboxes given up"),
  health_healthy: count("Looks at a sandbox that found it well"),
  health_resumable: count("Looks that found it stopped, its files kept"),
  health_gone: count("Looks that found it gone"),
  health_unknown: count("Looks that the provider did not answer"),
  recreated: count("Tries to replace a sandbox that was gone", { name: "outcome", values: tried }),
  resumed: count("Tries to resume a sandbox that was stopped", { name: "outcome", values: tried }),
  reinstall_loop: count("Turns whose new sandbox was gone again and again"),

  // Stop: request, lookup, termination, confirmation.
  stop_requested: count("Stops asked for by users"),
  stop_begun: count("Turns that were told to end: from here no push is granted", {
    name: "cause",
    values: taskErrorCodes,
  }),
  stop_lookup_ms: ms("From a user's stop to the record that says so"),
  stop_proven: count("Turns whose death was proven", { name: "cause", values: taskErrorCodes }),
  stop_unproven: count("Tries to prove a death that failed; each is made again", {
    name: "cause",
    values: taskErrorCodes,
  }),
  stop_ms: ms("From the record that says so to the proof", { name: "cause", values: taskErrorCodes }),
  cancellation_told: count("Runners told to stop by the answer to their own call", {
    name: "reason",
    values: ["stopping", "ended", "superseded", "unknown"],
  }),
  cancellation_told_ms: ms("From the stop's record to the runner that heard of it by its own call"),
  push_granted: count("Pushes that were granted"),
  push_refused: count("Pushes that were refused, because the turn was ending, over or late"),
  push_unexpected: count("Pushes reported that were never granted, or after the turn's end"),

  // Timeouts, and who enforces them.
  timeout_ended: count("Turns found past their deadline"),
  silence_asked: count("Silent turns whose sandbox was asked before they were ended", {
    name: "found",
    values: ["silent", "alive", "lost", "no_answer"],
  }),
  stuck_late_ms: ms("From when an agent counted as silent to the record that ends its turn"),
  timer_late_ms: ms("How late a timer acted, by the deadline that is stored", {
    name: "kind",
    values: timerKinds,
  }),
  reap_ms: ms("What a sweep took; none is a reaper that does not run"),
  reap_overdue_ms: ms("How long the tasks that a sweep looked after had been due"),
  reap_incomplete: count("Sweeps that ran out of time"),
  reap_failures: count("What a sweep could not do"),
  orphan_found: count("Sandboxes that no session names"),
  orphan_deleted: count("The same, deleted"),

  // Pool and money.
  pool_sandboxes: count("Sandboxes there are, at each sweep"),
  pool_users: count("Users who have one, at each sweep"),
  user_active: count("Users with a turn that day, each once"),
  vcpu_ms: ms("vCPU time of getting sandboxes and of running agents, of each turn"),
  cost_microusd: count("Millionths of a dollar of sandboxes, turns and idle rooms alike"),
  agent_cost_microusd: count("Millionths of a dollar that agents say their models cost, of each turn"),

  // The functions themselves.
  http_requests: count("Requests answered, runners' calls among them"),
  http_errors: count("Requests answered with a 5xx"),
  messages: count("Messages worked on", { name: "function", values: queueFunctions }),
  message_errors: count("Messages that failed, and come again", { name: "function", values: queueFunctions }),
  webhook_delivered: count("Webhooks delivered"),
  webhook_failed: count("Webhooks that were not, and are tried again"),
  webhook_refused: count("Webhooks that must not be sent, or are not wanted"),
} as const satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof catalogue;

type DimensionsOf<Name extends MetricName> = (typeof catalogue)[Name] extends { by: { name: infer By } }
  ? Readonly<Record<By & string, string>>
  : undefined;

/** Things that happened, each counted once where it happened. What is by something is never counted without it. */
export interface Metrics {
  count<Name extends MetricName>(
    name: Name,
    ...given: DimensionsOf<Name> extends undefined
      ? [value?: number]
      : [value: number, dimensions: DimensionsOf<Name>]
  ): void;
}

function count<const By extends Dimension | undefined = undefined>(says: string, by?: By) {
  return defined("Count", says, by);
}

function ms<const By extends Dimension | undefined = undefined>(says: string, by?: By) {
  return defined("Milliseconds", says, by);
}

function defined<Unit extends MetricDefinition["unit"], const By extends Dimension | undefined>(
  unit: Unit,
  says: string,
  by?: By,
): { unit: Unit; says: string } & (By extends Dimension ? { by: By } : object) {
  return { unit, says, ...(by && { by }) } as never;
}
