/** The dashboard as plain data, without IaC imports. */
import { catalogue, type MetricDefinition, type MetricName, successMetrics } from "@concierge/core";
import type { Query, Source, Statistic, Watched } from "./measures.ts";
import { queryOf } from "./measures.ts";
import { topology } from "./topology.ts";

export interface Line {
  label: string;
  query: Query;
}

export interface Widget {
  title: string;
  lines: readonly Line[];
  /** Horizontal lines for targets. */
  targets?: readonly { label: string; value: number }[];
  isStacked?: boolean;
  periodMs?: number;
}

export interface Row {
  title: string;
  widgets: readonly Widget[];
}

const minute = 60_000;
const day = 24 * 60 * minute;
const queues = Object.keys(topology.queues);
const functions = Object.keys(topology.functions);
const tables = Object.keys(topology.table);

export const dashboard: readonly Row[] = [
  {
    title: "Task: creation → execution → completion",
    widgets: [
      widget("Creation: turns requested", byEach("turn_queued", "Sum"), { isStacked: true }),
      widget(
        "Execution: waiting, getting a sandbox, running (average)",
        [own("queued_ms", "Average"), own("provision_ms", "Average"), own("agent_ms", "Average")],
        { isStacked: true },
      ),
      widget("Completion: turns ended", byEach("turn_ended", "Sum"), { isStacked: true }),
      reached("response_time", own("turn_ms", "p95")),
      reached("resume_success"),
      reached("inactivity_rate"),
      reached("false_silence"),
      reached("detection_time"),
    ],
  },
  {
    title: "Sandbox: create → health check → resume or recreate → terminate",
    widgets: [
      widget("Create: origin of sandboxes", byEach("room_given", "Sum"), { isStacked: true }),
      reached("init_time", ...byEach("room_ms", "Average")),
      widget("Create: each step", [own("room_step_ms", "Average"), own("room_step_ms", "p99")]),
      reached("reuse_rate"),
      reached("health_check_failures"),
      widget(
        "Health check",
        (["health_healthy", "health_resumable", "health_gone", "health_unknown"] as const).map((name) =>
          own(name, "Sum"),
        ),
        { isStacked: true },
      ),
      reached("recreate_success"),
      widget("Resume and recreate", [
        ...byEach("resumed", "Sum"),
        ...byEach("recreated", "Sum"),
        ...byEach("room_replaced", "Sum"),
      ]),
      reached("reinstall_loops"),
      widget("Terminate: released and orphaned", [
        own("room_released", "Sum"),
        own("orphan_found", "Sum"),
        own("orphan_deleted", "Sum"),
      ]),
      widget("Idle time of kept sandboxes", byEach("room_idle_ms", "Average")),
    ],
  },
  {
    title: "Stop: request → lookup → termination → confirmation",
    widgets: [
      widget("Request: stops requested and turns to end", [
        own("stop_requested", "Sum"),
        ...byEach("stop_begun", "Sum"),
      ]),
      widget("Lookup", [own("stop_lookup_ms", "p50"), own("stop_lookup_ms", "p99")]),
      reached("cancellation_time", own("cancellation_told_ms", "p95")),
      reached("termination_time", own("stop_ms", "p50")),
      reached("stop_success"),
      reached("stop_from_any_process"),
      reached("timeout_termination", own("timeout_ended", "Sum")),
      reached("false_cancellations", ...byEach("cancellation_told", "Sum")),
      widget("Confirmation: proven and unproven attempts", [
        own("stop_proven", "Sum"),
        own("stop_unproven", "Sum"),
      ]),
      widget("Pushes", [own("push_granted", "Sum"), own("push_refused", "Sum")]),
      reached("pushes_after_stop"),
      reached("pushes_after_timeout"),
      reached("race_incidents"),
    ],
  },
  {
    title: "Timers and reaper",
    widgets: [
      widget("How late timers act (p99)", byEach("timer_late_ms", "p99")),
      widget("Silent turns that were checked", byEach("silence_asked", "Sum"), { isStacked: true }),
      widget("Reaper passes", [
        own("reap_ms", "SampleCount"),
        own("reap_incomplete", "Sum"),
        own("reap_failures", "Sum"),
      ]),
      widget("Duration of a reaper pass and lateness of what it finds", [
        own("reap_ms", "Maximum"),
        own("reap_overdue_ms", "p99"),
      ]),
    ],
  },
  {
    title: "Pool and cost",
    widgets: [
      widget("Sandboxes and users with one", [
        own("pool_sandboxes", "Maximum"),
        own("pool_users", "Maximum"),
        own("room_refused", "Sum"),
      ]),
      reached("pool_size"),
      reached("active_sandboxes"),
      reached("idle_cleanups"),
      widget(
        "Millionths of a dollar a day",
        [own("cost_microusd", "Sum"), own("agent_cost_microusd", "Sum")],
        {
          periodMs: day,
        },
      ),
      { ...reached("cost_per_user", own("user_active", "Sum")), periodMs: day },
      reached("vcpu_per_message"),
    ],
  },
  {
    title: "Queues and functions",
    widgets: [
      widget(
        "Messages waiting",
        queues.map((queue) => waiting(queue)),
      ),
      widget(
        "The oldest message (s)",
        queues.map((queue) => of({ queue, metric: "ApproximateAgeOfOldestMessage" }, "Maximum", queue)),
      ),
      widget(
        "Dead letters",
        queues.map((queue) => waiting(`${queue}Dlq`)),
      ),
      widget("Messages handled and failed", [
        ...byEach("messages", "Sum"),
        ...byEach("message_errors", "Sum"),
      ]),
      widget("Requests and 5xx answers", [own("http_requests", "Sum"), own("http_errors", "Sum")]),
      ...(["Errors", "Throttles", "ConcurrentExecutions"] as const).map((metric) =>
        widget(
          `Functions: ${metric}`,
          functions.map((name) =>
            of({ function: name, metric }, metric === "ConcurrentExecutions" ? "Maximum" : "Sum", name),
          ),
        ),
      ),
      widget(
        "Table: throttled",
        tables.flatMap((table) =>
          (["ReadThrottleEvents", "WriteThrottleEvents"] as const).map((metric) =>
            of({ table, metric }, "Sum", metric),
          ),
        ),
      ),
      widget(
        "Webhooks",
        (["webhook_delivered", "webhook_failed", "webhook_refused"] as const).map((name) => own(name, "Sum")),
      ),
    ],
  },
];

/** A success metric with its target and related lines. */
function reached(name: keyof typeof successMetrics, ...beside: readonly Line[]): Widget {
  const { says, measure, target } = successMetrics[name];
  const isShare = "as" in measure && measure.as === "share";
  return {
    title: says,
    lines: [{ label: name, query: queryOf(measure) }, ...beside],
    ...(target && { targets: [targetLine(target, isShare)] }),
    ...(isShare && { periodMs: 15 * minute }),
  };
}

function targetLine(target: { atLeast: number } | { atMost: number }, isShare: boolean) {
  const [bound, value] =
    "atLeast" in target ? (["≥", target.atLeast] as const) : (["≤", target.atMost] as const);
  const shown = isShare ? value * 100 : value;
  return { label: `target ${bound} ${shown}${isShare ? " %" : ""}`, value: shown };
}

function widget(
  title: string,
  lines: readonly Line[],
  options: Pick<Widget, "isStacked" | "periodMs"> = {},
): Widget {
  return { title, lines, ...options };
}

function own(metric: MetricName, statistic: Statistic, is?: string): Line {
  const label = is === undefined ? `${metric} ${statistic}` : is;
  return of({ metric, ...(is !== undefined && { is }) }, statistic, label);
}

/** One line per value of the metric's dimension. */
function byEach(metric: MetricName, statistic: Statistic): Line[] {
  const { by }: MetricDefinition = catalogue[metric];
  return (by?.values ?? []).map((value) => ({
    ...own(metric, statistic, value),
    label: `${metric} ${value}`,
  }));
}

function waiting(queue: string): Line {
  return of({ queue, metric: "ApproximateNumberOfMessagesVisible" }, "Maximum", queue);
}

function of(watched: Watched, statistic: Statistic, label: string): Line {
  const query: Source = { watched, statistic };
  return { label, query };
}
