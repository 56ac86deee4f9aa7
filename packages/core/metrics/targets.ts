import type { MetricName } from "./catalogue.ts";

/** A metric, or one dimension value of it. */
export interface Term {
  metric: MetricName;
  is?: string;
}

/** How it is measured: a statistic of one metric, the share of a part in a whole, or an amount per unit. */
export type Measure =
  | { part: readonly Term[]; whole: readonly Term[]; as: "share" | "sum for each" | "average for each" }
  | { term: Term; statistic: "Average" | "Sum" | "p95" | "p99" };

/** A goal of Concierge and how to see whether it is met. */
export interface SuccessMetric {
  says: string;
  measure: Measure;
  /** Null: the value is only watched. */
  target: { atLeast: number } | { atMost: number } | null;
}

const byUser = "stopped_by_user";
const byDeadline = "deadline_exceeded";

/** The first estimate: the cost of one session per user and month, and the vCPU-seconds of thirty messages. */
const userMonthUsd = 0.2;
const vcpuSecondsPerMessage = 614 / 30;

export const successMetrics = {
  stop_success: {
    says: "Proven stops as a share of attempts",
    measure: share([{ metric: "stop_proven", is: byUser }], tries(byUser)),
    target: { atLeast: 0.95 },
  },
  stop_from_any_process: {
    says: "Turns proven dead as a share of all turns that were ended",
    measure: share([{ metric: "stop_proven" }], [{ metric: "stop_begun" }]),
    target: { atLeast: 1 },
  },
  termination_time: {
    says: "Stop latency from record to proof (ms)",
    measure: { term: { metric: "stop_ms" }, statistic: "p99" },
    target: { atMost: 30_000 },
  },
  cancellation_time: {
    says: "Stop latency of user stops, from record to proof (ms)",
    measure: { term: { metric: "stop_ms", is: byUser }, statistic: "p95" },
    target: { atMost: 5000 },
  },
  pushes_after_stop: {
    says: "Pushes after a stop",
    measure: { term: { metric: "push_unexpected", is: "stopped" }, statistic: "Sum" },
    target: { atMost: 0 },
  },
  false_cancellations: {
    says: "Runners of unknown turns as a share of runners told to stop",
    measure: share([{ metric: "cancellation_told", is: "unknown" }], [{ metric: "cancellation_told" }]),
    target: { atMost: 0.01 },
  },
  recreate_success: {
    says: "Lost sandboxes that were replaced as a share of attempts",
    measure: share([{ metric: "recreated", is: "done" }], [{ metric: "recreated" }]),
    target: { atLeast: 0.95 },
  },
  resume_success: {
    says: "Continued turns that kept their context",
    measure: share([{ metric: "turn_continued", is: "kept" }], [{ metric: "turn_continued" }]),
    target: { atLeast: 0.9 },
  },
  reinstall_loops: {
    says: "Turns in a reinstall loop",
    measure: { term: { metric: "reinstall_loop" }, statistic: "Sum" },
    target: { atMost: 0 },
  },
  inactivity_rate: {
    says: "Turns ended for silence as a share of all turns",
    measure: share([{ metric: "turn_ended", is: "inactivity_timeout" }], [{ metric: "turn_ended" }]),
    target: { atMost: 0.05 },
  },
  false_silence: {
    says: "False silences per turn: the sandbox reported activity",
    measure: share([{ metric: "silence_asked", is: "alive" }], [{ metric: "turn_ended" }]),
    target: { atMost: 0.02 },
  },
  detection_time: {
    says: "From the moment an agent counted as stuck to the end of its turn (ms)",
    measure: { term: { metric: "stuck_late_ms" }, statistic: "p99" },
    target: { atMost: 60_000 },
  },
  timeout_termination: {
    says: "Turns past their deadline proven dead, as a share of attempts",
    measure: share([{ metric: "stop_proven", is: byDeadline }], tries(byDeadline)),
    target: { atLeast: 0.95 },
  },
  pushes_after_timeout: {
    says: "Pushes after a timeout",
    measure: { term: { metric: "push_unexpected", is: "timed_out" }, statistic: "Sum" },
    target: { atMost: 0 },
  },
  race_incidents: {
    says: "Pushes without a grant",
    measure: { term: { metric: "push_unexpected" }, statistic: "Sum" },
    target: { atMost: 0 },
  },
  reuse_rate: {
    says: "Turns that reused their session's sandbox",
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
    says: "Time to acquire a sandbox; one per message took seven seconds (ms)",
    measure: { term: { metric: "room_ms" }, statistic: "Average" },
    target: { atMost: 7000 },
  },
  response_time: {
    says: "From the request to the turn's end (ms)",
    measure: { term: { metric: "turn_ms" }, statistic: "Average" },
    target: { atMost: 12_000 },
  },
  vcpu_per_message: {
    says: "vCPU time per turn (ms)",
    measure: { term: { metric: "vcpu_ms" }, statistic: "Average" },
    target: { atMost: Math.round(vcpuSecondsPerMessage * 1000) },
  },
  cost_per_user: {
    says: "Millionths of a dollar per user and day",
    measure: { part: [{ metric: "cost_microusd" }], whole: [{ metric: "user_active" }], as: "sum for each" },
    target: { atMost: Math.round((userMonthUsd * 1e6) / 30) },
  },
  pool_size: {
    says: "Sandboxes per user with a sandbox",
    measure: {
      part: [{ metric: "pool_sandboxes" }],
      whole: [{ metric: "pool_users" }],
      as: "average for each",
    },
    target: { atMost: 2 },
  },
  health_check_failures: {
    says: "Probes before a turn that found the sandbox stopped or gone",
    measure: share(
      [{ metric: "health_resumable" }, { metric: "health_gone" }],
      [{ metric: "health_healthy" }, { metric: "health_resumable" }, { metric: "health_gone" }],
    ),
    target: null,
  },
  active_sandboxes: {
    says: "Sandboxes now",
    measure: { term: { metric: "pool_sandboxes" }, statistic: "Average" },
    target: null,
  },
  idle_cleanups: {
    says: "Idle sandboxes released",
    measure: { term: { metric: "room_released" }, statistic: "Sum" },
    target: null,
  },
} as const satisfies Record<string, SuccessMetric>;

export type SuccessMetricName = keyof typeof successMetrics;

/** Every attempt to prove an end: proven or not. */
function tries(cause: string): Term[] {
  return [
    { metric: "stop_proven", is: cause },
    { metric: "stop_unproven", is: cause },
  ];
}

function share(part: readonly Term[], whole: readonly Term[]) {
  return { part, whole, as: "share" } as const;
}
