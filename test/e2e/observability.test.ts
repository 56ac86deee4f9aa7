import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { catalogue, type MetricDefinition, type MetricName } from "@concierge/core";
import { clientConfig } from "@concierge/dev";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { alarms } from "../../infra/alarms.ts";
import { dashboard } from "../../infra/dashboard.ts";
import { identify, type Query, sourcesOf } from "../../infra/measures.ts";
import { topology } from "../../infra/topology.ts";
import { type Datum, identityOf, readMetrics } from "../testing/emf.ts";
import { type GitServer, startGitServer } from "../testing/git-server.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

/** Metrics that this run does not count: they take longer than a test, need a model, or must not happen. */
const unseen = new Set<MetricName>([
  "agent_cost_microusd",
  "health_resumable",
  "orphan_deleted",
  "orphan_found",
  "push_refused",
  "push_unexpected",
  "reap_failures",
  "reap_incomplete",
  "reinstall_loop",
  "resumed",
  "room_refused",
  "webhook_failed",
  "webhook_refused",
]);

/** What this run makes happen, for metrics that are asked for by dimension value. */
const expected: [MetricName, ...values: string[]][] = [
  ["turn_queued", "start", "continue"],
  ["turn_ended", "succeeded", "stopped_by_user", "deadline_exceeded", "inactivity_timeout"],
  ["turn_continued", "kept"],
  ["room_given", "cold", "reused"],
  ["room_ms", "cold", "reused"],
  ["room_idle_ms", "used", "released"],
  ["room_replaced", "gone"],
  ["recreated", "done"],
  ["stop_begun", "stopped_by_user", "deadline_exceeded", "inactivity_timeout"],
  ["stop_proven", "stopped_by_user", "deadline_exceeded"],
  ["stop_unproven", "stopped_by_user"],
  ["stop_ms", "stopped_by_user"],
  ["cancellation_told", "stopping"],
  ["silence_asked", "silent"],
  ["timer_late_ms", "deadline", "inactivity"],
  ["messages", "Worker", "Timer", "Webhook"],
  ["message_errors", "Worker"],
];

const stage = "dev";
const names = {
  stage,
  queues: named(Object.keys(topology.queues).flatMap((name) => [name, `${name}Dlq`])),
  functions: named(Object.keys(topology.functions)),
  tables: named(Object.keys(topology.table)),
};

function named(all: readonly string[]): Record<string, string> {
  return Object.fromEntries(all.map((name) => [name, name]));
}

/** Every metric that an alarm or the dashboard asks CloudWatch for. */
function asked(
  queries: readonly Query[],
): { metric: MetricName; is: string | undefined; identity: string }[] {
  return queries.flatMap(sourcesOf).flatMap(({ watched }) => {
    if ("queue" in watched || "function" in watched || "table" in watched) return [];
    const { namespace, metricName: name, dimensions } = identify(watched, names);
    const identity = identityOf({ namespace, name, dimensions });
    return [{ metric: watched.metric, is: watched.is, identity }];
  });
}

const byAlarms = asked(Object.values(alarms).map(({ query }) => query));
const byWidgets = asked(
  dashboard.flatMap(({ widgets }) => widgets.flatMap(({ lines }) => lines.map(({ query }) => query))),
);

/** The receiver of the webhooks. */
const receiver = createServer((request, response) => {
  request.resume();
  response.writeHead(204).end();
});

let concierge: Concierge;
let git: GitServer;
let seen: Datum[];
let identities: Set<string>;

beforeAll(async () => {
  await new Promise<void>((listening) => receiver.listen(0, "127.0.0.1", listening));
  [concierge, git] = await Promise.all([
    startConcierge({ reapEveryMs: 1000, env: { CONCIERGE_STAGE: stage, SESSION_IDLE_TIMEOUT_MS: "60000" } }),
    startGitServer(),
  ]);
  await Promise.all([conversation(), stopped(), late(), silent(), pushed(), badMessage()]);
  await unprovable();
  // Usage is counted, and a sandbox released, after the end of a turn.
  await untilSeen("cost_microusd", "concierge-dev");
  await untilSeen("room_idle_ms", "released");
}, 120_000);
afterAll(async () => {
  receiver.close();
  await concierge[Symbol.asyncDispose]();
  await git.close();
});

/** Waits for a line with this metric and dimension value. */
async function untilSeen(metric: MetricName, value: string): Promise<void> {
  await vi.waitFor(
    () => {
      seen = readMetrics(concierge.log);
      identities = new Set(seen.map(identityOf));
      const found = seen
        .filter(({ name }) => name === metric)
        .flatMap(({ dimensions }) => Object.values(dimensions));
      expect(found).toContain(value);
    },
    { timeout: 30_000, interval: 100 },
  );
}

/** Continues in its sandbox, then in another because its own is gone, and releases that. */
async function conversation(): Promise<void> {
  const { client, provider } = concierge;
  const sessionKey = randomUUID();
  const { id } = await client.start("echo one", { sessionKey });
  await client.ended(id);
  await client.continue(id, "echo two");
  const { sandbox } = await client.ended(id);
  await provider.remove(sandbox?.name ?? "");
  await client.continue(id, "echo three");
  await client.ended(id);
  await client.request("DELETE", `/v1/sessions/${sessionKey}`);
}

async function stopped(): Promise<void> {
  const { client } = concierge;
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const { id } = await client.start("echo started; sleep 1000", { webhook: { url } });
  await client.until(id, ({ status }) => status === "running");
  await client.stop(id);
  await client.ended(id);
}

/** The runner is frozen: otherwise its own limits would end it first. */
const frozen = "echo started; kill -STOP $PPID; sleep 1000";

async function late(): Promise<void> {
  const { id } = await concierge.client.start(frozen, {
    limits: { maxDurationMs: 5000, inactivityMs: 60_000 },
  });
  await concierge.client.ended(id, 60_000);
}

async function silent(): Promise<void> {
  const { id } = await concierge.client.start(frozen, { limits: { inactivityMs: 2000 } });
  await concierge.client.ended(id, 60_000);
}

async function pushed(): Promise<void> {
  const { url } = git.createRepo("watched", { files: { "README.md": "hello\n" } });
  const { id } = await concierge.client.start("echo more >> README.md", {
    repo: { url, branch: "work", token: git.token },
  });
  expect((await concierge.client.ended(id)).result).toMatchObject({ pushed: true });
}

async function badMessage(): Promise<void> {
  const client = new SQSClient(clientConfig(concierge.endpoints.sqs, concierge.credentials));
  await client.send(new SendMessageCommand({ QueueUrl: concierge.queueUrls.WorkQueue, MessageBody: "{}" }));
  client.destroy();
}

/** The provider does not answer: the runner hears of the stop by itself. */
async function unprovable(): Promise<void> {
  const { client, control } = concierge;
  const sessionKey = randomUUID();
  const { id } = await client.start("echo started; sleep 1000", { sessionKey });
  await client.until(id, ({ status }) => status === "running");
  const effect = { type: "status", status: 500 };
  for (const route of ["killCommand", "runCommand", "getSandbox", "deleteSandbox"])
    await control("POST", "/faults", { route, count: 1000, effect });
  await client.json("GET", `/v1/sessions/${sessionKey}?probe=true`);
  await client.stop(id);
  await untilSeen("cancellation_told", "stopping");
  const answer = await client.request("POST", `/v1/sessions/${sessionKey}/exec`, { command: "true" });
  expect(answer.status).toBe(503);
  await control("DELETE", "/faults");
  await client.ended(id, 60_000);
}

describe("the metrics of a run, read as CloudWatch does", () => {
  it("include every metric that an alarm or a widget asks for", () => {
    const plain = [...byAlarms, ...byWidgets].filter(
      ({ metric, is }) => is === undefined && !unseen.has(metric),
    );
    expect(plain.length).toBeGreaterThan(30);
    const missing = plain.filter(({ identity }) => !identities.has(identity)).map(({ identity }) => identity);
    expect([...new Set(missing)]).toEqual([]);
  });

  it.each(expected)("include %s by dimension value", (metric, ...values) => {
    const wanted: readonly string[] = values;
    const questions = byWidgets.filter((one) => one.metric === metric && wanted.includes(one.is ?? ""));
    expect(new Set(questions.map(({ is }) => is))).toEqual(new Set(wanted));
    expect(questions.filter(({ identity }) => !identities.has(identity))).toEqual([]);
  });

  it("contain no value or unit that the catalogue does not know", () => {
    expect(seen.length).toBeGreaterThan(100);
    for (const { name, unit, namespace, dimensions } of seen) {
      const definition: MetricDefinition | undefined = catalogue[name as MetricName];
      expect([namespace, name, unit]).toEqual(["Concierge", name, definition?.unit]);
      const { service, ...others } = dimensions;
      expect(service).toBe(`concierge-${stage}`);
      for (const [key, value] of Object.entries(others)) {
        expect([name, key]).toEqual([name, definition?.by?.name]);
        if (definition?.by?.values) expect(definition.by.values).toContain(value);
      }
    }
  });

  it("count each stop once when it starts and once when it is proven", async () => {
    const total = (metric: MetricName) =>
      readMetrics(concierge.log)
        .filter(({ name, dimensions }) => name === metric && Object.keys(dimensions).length === 1)
        .reduce((sum, { value }) => sum + value, 0);
    // A function's last lines come a moment after what they describe.
    const within = { timeout: 20_000, interval: 100 };
    await vi.waitFor(() => expect(total("turn_ended")).toBe(total("turn_queued")), within);
    await vi.waitFor(() => expect(total("stop_proven")).toBe(total("stop_begun")), within);
    expect(total("stop_begun")).toBe(4);
  });

  it("contain no secret of the stack", () => {
    const text = concierge.log.join("\n");
    expect(text).not.toContain(concierge.apiKey);
    expect(text).not.toMatch(/Bearer [\w.-]{8,}/);
  });
});
