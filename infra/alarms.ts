/** What someone is told of, as plain data: no IaC import here. */
import type { MetricName, Term } from "@concierge/core";
import { type Query, queryOf, type Source, type Watched } from "./measures.ts";
import { topology } from "./topology.ts";

export interface Alarm {
  /** What is wrong when it goes off, and where `docs/operations.md` says what to do. */
  says: string;
  see: string;
  query: Query;
  when: { above: number } | { below: number };
  periodMs: number;
  /** So many periods are looked at, and so many of them must be bad. */
  periods: number;
  bad: number;
  /** Silence is mostly no work; where it is what is wrong, it counts as bad. */
  silence: "good" | "bad";
}

const minute = 60_000;
const day = 24 * 60 * minute;
const often = { periodMs: 5 * minute, periods: 3, bad: 2, silence: "good" } as const;
const once = { periodMs: 5 * minute, periods: 1, bad: 1, silence: "good" } as const;

/** Dollars of sandboxes a month from which on someone is to look, as the budget has them for AWS itself. */
const monthUsd = 100;

export const alarms: Readonly<Record<string, Alarm>> = {
  StopsFail: {
    says: "More than a tenth of the tries to end a turn could not be proven.",
    see: "stops-fail",
    // Each try is proven or not, and counted once: a share of tries is exact where one of requests would not be.
    query: percentage(
      [{ metric: "stop_unproven" }],
      [{ metric: "stop_unproven" }, { metric: "stop_proven" }],
    ),
    when: { above: 10 },
    ...often,
  },
  AgentsSilent: {
    says: "More than a fifth of all turns were ended for their silence.",
    see: "agents-silent",
    query: percentage([{ metric: "turn_ended", is: "inactivity_timeout" }], [{ metric: "turn_ended" }]),
    when: { above: 20 },
    periodMs: 15 * minute,
    periods: 2,
    bad: 2,
    silence: "good",
  },
  OrphansFound: {
    says: "There were sandboxes that no session names. The sweep deletes them; someone died while making them.",
    see: "orphans-found",
    query: sum("orphan_found"),
    when: { above: 0 },
    ...once,
  },
  PushUnexpected: {
    says: "A push was reported that had not been granted. This must not be.",
    see: "push-unexpected",
    query: sum("push_unexpected"),
    when: { above: 0 },
    ...once,
  },
  ReaperLate: {
    says: "No sweep has ended for five minutes; it should each minute.",
    see: "reaper-late",
    query: { watched: { metric: "reap_ms" }, statistic: "SampleCount" },
    when: { below: 1 },
    periodMs: minute,
    periods: 5,
    bad: 5,
    silence: "bad",
  },
  SweepsFail: {
    says: "Sweeps leave things undone, each time.",
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
    says: "Timers act more than 15 s after what is stored: turns run longer than they may.",
    see: "timers-late",
    query: { watched: { metric: "timer_late_ms" }, statistic: "p99" },
    when: { above: 15_000 },
    ...often,
  },
  RequestsFail: {
    says: "More than one in twenty requests is answered with a 5xx.",
    see: "requests-fail",
    query: percentage([{ metric: "http_errors" }], [{ metric: "http_requests" }]),
    when: { above: 5 },
    ...often,
  },
  MessagesFail: {
    says: "More than a tenth of the messages fail; each comes again until it is a dead letter.",
    see: "messages-fail",
    query: percentage([{ metric: "message_errors" }], [{ metric: "messages" }]),
    when: { above: 10 },
    ...often,
  },
  FunctionsFail: {
    says: "Functions crash or run out of time.",
    see: "functions-fail",
    query: added(Object.keys(topology.functions).map((name) => ({ function: name, metric: "Errors" }))),
    when: { above: 5 },
    ...often,
  },
  CostHigh: {
    says: `Sandboxes cost more today than ${monthUsd} dollars a month come to.`,
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
    says: `Messages of ${name} have failed as often as they may.`,
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

/** Nothing at all is no share: without a whole there is no number, and so no alarm. */
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
