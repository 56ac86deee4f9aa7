import type { MetricName } from "./catalogue.ts";

/** A metric, or the part of it that is by one value. */
export interface Term {
  metric: MetricName;
  is?: string;
}

/** How it is measured: a statistic of one metric, which share of a whole a part is, or how much of it comes to each. */
export type Measure =
  | { part: readonly Term[]; whole: readonly Term[]; as: "share" | "sum for each" | "average for each" }
  | { term: Term; statistic: "Average" | "Sum" | "p95" | "p99" };

/** What Concierge is to reach, and how one sees whether it does. */
export interface SuccessMetric {
  says: string;
  measure: Measure;
  target: { atLeast: number } | { atMost: number };
}

const byUser = "stopped_by_user";
const byDeadline = "deadline_exceeded";

/** A room for a user and a month may cost this; turns of thirty messages took so many vCPU-seconds, as first estimated. */
const userMonthUsd = 0.2;
const vcpuSecondsPerMessage = 614 / 30;

export const successMetrics = {
  stop_success: {
    says: "Stops that were proven, of all tries to",
    measure: share([{ metric: "stop_proven", is: byUser }], tries(byUser)),
    target: { atLeast: 0.95 },
  },
  stop_from_any_process: {
    says: "Turns that were proven dead, of all that were to end, whoever asked and whoever ran them",
    measure: share([{ metric: "stop_proven" }], [{ metric: "stop_begun" }]),
    target: { atLeast: 1 },
  },
  termination_time: {
    says: "What a stop takes, from the record to the proof (ms)",
    measure: { term: { metric: "stop_ms" }, statistic: "p99" },
    target: { atMost: 30_000 },
  },
  cancellation_time: {
    says: "The same of stops that a user asked for (ms)",
    measure: { term: { metric: "stop_ms", is: byUser }, statistic: "p95" },
    target: { atMost: 5000 },
  },
  pushes_after_stop: {
    says: "Pushes after a stop",
    measure: { term: { metric: "push_unexpected", is: "stopped" }, statistic: "Sum" },
    target: { atMost: 0 },
  },
  false_cancellations: {
    says: "Runners told to stop that nobody knew, of all that were told",
    measure: share([{ metric: "cancellation_told", is: "unknown" }], [{ metric: "cancellation_told" }]),
    target: { atMost: 0.01 },
  },
  recreate_success: {
    says: "Sandboxes that were gone and could be replaced, of all tries to",
    measure: share([{ metric: "recreated", is: "done" }], [{ metric: "recreated" }]),
    target: { atLeast: 0.95 },
  },
  resume_success: {
    says: "Turns that went on where the ones before had stopped, of all that were not the first",
    measure: share([{ metric: "turn_continued", is: "kept" }], [{ metric: "turn_continued" }]),
    target: { atLeast: 0.9 },
  },
  reinstall_loops: {
    says: "Turns whose sandbox was made again and again",
    measure: { term: { metric: "reinstall_loop" }, statistic: "Sum" },
    target: { atMost: 0 },
  },
  inactivity_rate: {
    says: "Turns ended for their silence, of all",
    measure: share([{ metric: "turn_ended", is: "inactivity_timeout" }], [{ metric: "turn_ended" }]),
    target: { atMost: 0.05 },
  },
  false_silence: {
    says: "Silences that the sandbox, when asked, knew to be none, for each turn",
    measure: share([{ metric: "silence_asked", is: "alive" }], [{ metric: "turn_ended" }]),
    target: { atMost: 0.02 },
  },
  detection_time: {
    says: "From when an agent counted as stuck to the end of its turn (ms)",
    measure: { term: { metric: "stuck_late_ms" }, statistic: "p99" },
    target: { atMost: 60_000 },
  },
  timeout_termination: {
    says: "Turns past their deadline that were proven dead, of all tries to",
    measure: share([{ metric: "stop_proven", is: byDeadline }], tries(byDeadline)),
    target: { atLeast: 0.95 },
  },
  pushes_after_timeout: {
    says: "Pushes after a timeout",
    measure: { term: { metric: "push_unexpected", is: "timed_out" }, statistic: "Sum" },
    target: { atMost: 0 },
  },
  race_incidents: {
    says: "Pushes that were never granted, whatever the turn was at",
    measure: { term: { metric: "push_unexpected" }, statistic: "Sum" },
    target: { atMost: 0 },
  },
  reuse_rate: {
    says: "Turns that went on in the room they had, of all",
    measure: share(
      [
        { metric: "room_given", is: "reused" },
        { metric: "room_given", is: "resumed" },
      ],
      [{ metric: "room_given" }],
    ),
    target: { atLeast: 0.8 },
  },
  init_time: {
    says: "What getting a sandbox takes; seven seconds is what one for each message took (ms)",
    measure: { term: { metric: "room_ms" }, statistic: "Average" },
    target: { atMost: 7000 },
  },
  response_time: {
    says: "From the request to the turn's end (ms)",
    measure: { term: { metric: "turn_ms" }, statistic: "Average" },
    target: { atMost: 12_000 },
  },
  vcpu_per_message: {
    says: "vCPU time of a turn (ms)",
    measure: { term: { metric: "vcpu_ms" }, statistic: "Average" },
    target: { atMost: Math.round(vcpuSecondsPerMessage * 1000) },
  },
  cost_per_user: {
    says: "Millionths of a dollar for a user and a day",
    measure: { part: [{ metric: "cost_microusd" }], whole: [{ metric: "user_active" }], as: "sum for each" },
    target: { atMost: Math.round((userMonthUsd * 1e6) / 30) },
  },
  pool_size: {
    says: "Sandboxes for each user who has one",
    measure: {
      part: [{ metric: "pool_sandboxes" }],
      whole: [{ metric: "pool_users" }],
      as: "average for each",
    },
    target: { atMost: 2 },
  },
} as const satisfies Record<string, SuccessMetric>;

export type SuccessMetricName = keyof typeof successMetrics;

/** Every try to prove a death either does or does not: the next one is another. */
function tries(cause: string): Term[] {
  return [
    { metric: "stop_proven", is: cause },
    { metric: "stop_unproven", is: cause },
  ];
}

function share(part: readonly Term[], whole: readonly Term[]) {
  return { part, whole, as: "share" } as const;
}
