/** The alarms as plain data, without IaC imports. */
import type { MetricName, Term } from "@concierge/core";
import { type Query, queryOf, type Source, type Watched } from "./measures.ts";
import { topology } from "./topology.ts";

export interface Alarm {
  /** What is wrong, and the section of `docs/operations.md` that says what to do. */
  says: string;
  see: string;
  query: Query;
  when: { above: number } | { below: number };
  periodMs: number;
  /** The alarm goes off if `bad` of the last `periods` are bad. */
  periods: number;
  bad: number;
  /** How missing data counts. It usually means no work; for some alarms it is the problem itself. */
  silence: "good" | "bad";
}

const minute = 60_000;
const day = 24 * 60 * minute;
const often = { periodMs: 5 * minute, periods: 3, bad: 2, silence: "good" } as const;
const once = { periodMs: 5 * minute, periods: 1, bad: 1, silence: "good" } as const;

/** Monthly sandbox costs that need attention. AWS's own costs have a budget. */
const monthUsd = 100;

export const alarms: Readonly<Record<string, Alarm>> = {
  StopsFail: {
    says: "More than 10 % of the attempts to end a turn had no proof.",
    see: "stops-fail",
    // Attempts, not requests: each attempt is counted exactly once, as proven or unproven.
    query: percentage(
      [{ metric: "stop_unproven" }],
      [{ metric: "stop_unproven" }, { metric: "stop_proven" }],
    ),
    when: { above: 10 },
    ...often,
  },
  AgentsSilent: {
    says: "More than 20 % of all turns ended for inactivity.",
    see: "agents-silent",
    query: percentage([{ metric: "turn_ended", is: "inactivity_timeout" }], [{ metric: "turn_ended" }]),
    when: { above: 20 },
    periodMs: 15 * minute,
    periods: 2,
    bad: 2,
    silence: "good",
  },
  OrphansFound: {
    says: "Sandboxes without a session were found. The reaper deletes them; a process died while it created them.",
    see: "orphans-found",
    query: sum("orphan_found"),
    when: { above: 0 },
    ...once,
  },
  PushUnexpected: {
    says: "A push was reported that was not granted. This must never happen.",
    see: "push-unexpected",
    query: sum("push_unexpected"),
    when: { above: 0 },
    ...once,
  },
  ReaperLate: {
    says: "No reaper pass has finished for five minutes. One should finish every minute.",
    see: "reaper-late",
    query: { watched: { metric: "reap_ms" }, statistic: "SampleCount" },
    when: { below: 1 },
    periodMs: minute,
    periods: 5,
    bad: 5,
    silence: "bad",
  },
  SweepsFail: {
    says: "Every reaper pass leaves work undone.",
    see: "sweeps-fail",
    query: {
      sources: { failures: sum("reap_failures"), incomplete: sum("reap_incomplete") },
      expression: "FILL(failures, 0) + FILL(incomplete, 0)",
    },
    when: { above: 0 },
    periodMs: 5 * minute,
    periods: 3,
    bad: 3,
    silence: "good",
  },
  TimersLate: {
    says: "Timers act more than 15 s late, so turns run longer than allowed.",
    see: "timers-late",
    query: { watched: { metric: "timer_late_ms" }, statistic: "p99" },
    when: { above: 15_000 },
    ...often,
  },
  RequestsFail: {
    says: "More than 5 % of requests are answered with a 5xx.",
    see: "requests-fail",
    query: percentage([{ metric: "http_errors" }], [{ metric: "http_requests" }]),
    when: { above: 5 },
    ...often,
  },
  MessagesFail: {
    says: "More than 10 % of messages fail. Each is retried until it is a dead letter.",
    see: "messages-fail",
    query: percentage([{ metric: "message_errors" }], [{ metric: "messages" }]),
    when: { above: 10 },
    ...often,
  },
  FunctionsFail: {
    says: "Functions crash or time out.",
    see: "functions-fail",
    query: added(Object.keys(topology.functions).map((name) => ({ function: name, metric: "Errors" }))),
    when: { above: 5 },
    ...often,
  },
  CostHigh: {
    says: `Sandboxes cost more today than the daily share of ${monthUsd} dollars a month.`,
    see: "cost-high",
    query: sum("cost_microusd"),
    when: { above: Math.round((monthUsd * 1e6) / 30) },
    periodMs: day,
    periods: 1,
    bad: 1,
    silence: "good",
  },
  ...Object.fromEntries(
    Object.keys(topology.queues).map((name): [string, Alarm] => [`${name}DlqNotEmpty`, deadLetters(name)]),
  ),
};

function deadLetters(name: string): Alarm {
  return {
    says: `${name} has messages that failed on every attempt.`,
    see: "dead-letters",
    query: {
      watched: { queue: `${name}Dlq`, metric: "ApproximateNumberOfMessagesVisible" },
      statistic: "Maximum",
    },
    when: { above: 0 },
    ...once,
  };
}

function sum(metric: MetricName): Source {
  return { watched: { metric }, statistic: "Sum" };
}

/** Without any data there is no percentage and so no alarm. */
function percentage(part: readonly Term[], whole: readonly Term[]): Query {
  return queryOf({ part, whole, as: "share" });
}

function added(all: readonly Watched[]): Query {
  const named = all.map((watched, at): [string, Source] => [`m${at}`, { watched, statistic: "Sum" }]);
  return {
    sources: Object.fromEntries(named),
    expression: named.map(([id]) => `FILL(${id}, 0)`).join(" + "),
  };
}
