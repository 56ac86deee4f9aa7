import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { type ConsumedCapacity, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import {
  type Clock,
  createFlagReader,
  createId,
  createSealer,
  type EndingDeps,
  getTask,
  type LaunchDeps,
  parseConfig,
} from "@concierge/core";
import { beginning } from "@concierge/core/events/cursor";
import { readEvents } from "@concierge/core/events/read";
import { reap } from "@concierge/core/reaper/reap";
import { continueTask } from "@concierge/core/task/continue";
import { reportEnd } from "@concierge/core/task/end";
import { takeBeat, takeOutput } from "@concierge/core/task/output";
import { start } from "@concierge/core/task/start";
import { stop } from "@concierge/core/task/stop";
import { fireTimer } from "@concierge/core/task/timer";
import { createMemoryProvider } from "@concierge/core/testing";
import { handleWork } from "@concierge/core/work";
import { clientConfig, createTables, physicalName } from "@concierge/dev";
import { createDynamoStore } from "@concierge/store";
import dynalite from "dynalite";
import { topology } from "../../infra/topology.ts";
import { noAgents } from "../testing/agents.ts";

/** What a verb asks of the outside world. */
export interface Requests {
  reads: number;
  writes: number;
  /** As DynamoDB bills them on demand, including indexes. */
  readUnits: number;
  writeUnits: number;
  /** Messages sent to a queue. */
  messages: number;
  /** Calls to the provider. */
  calls: number;
}

const userId = "bench";
const writing = /(Put|Update|Delete|BatchWrite|TransactWrite)Item/;
const nothing: Requests = { reads: 0, writes: 0, readUnits: 0, writeUnits: 0, messages: 0, calls: 0 };

/** All zero. */
export function requestsOf(): Requests {
  return { ...nothing };
}

/** Runs each verb once on a real engine and counts. */
export async function countRequests(): Promise<Record<string, Requests>> {
  const total = { ...nothing };
  await using engine = await startEngine(total);
  const deps = composeDeps(engine.client, total);
  const counted: Record<string, Requests> = {};
  const count = async <T>(what: string, verb: () => Promise<T>): Promise<T> => {
    const before = { ...total };
    const result = await verb();
    counted[what] = difference(total, before);
    return result;
  };
  const batch = {
    seq: 1,
    chunks: [{ stream: "stdout" as const, at: Date.now(), data: Buffer.alloc(1000, "x") }],
  };
  const end = { exitCode: 0, signal: null, reason: "exited", outputCutBytes: 0, text: "" } as const;

  const { id } = await count("start", () => start(deps, userId, { prompt: "true" }));
  const first = { taskId: id, turn: 1 };
  await count("provision, cold", () => handleWork(deps, { kind: "provision", ...first }));
  await count("a batch of output", () => takeOutput(deps, first, batch));
  await count("a beat", () => takeBeat(deps, first, "none"));
  await count("a timer that comes early", () => fireTimer(deps, { kind: "inactivity", ...first }));
  await count("an end, by the runner", () => reportEnd(deps, first, { ...end, lastSeq: 1 }));
  await count("what follows an end", () => handleWork(deps, { kind: "ended", ...first }));
  const task = await count("read a task", () => getTask(deps, userId, id));
  await count("read its events, besides", () => readEvents(deps, task, beginning));

  await count("continue", () => continueTask(deps, userId, id, { prompt: "true" }));
  await count("provision, reused", () => handleWork(deps, { kind: "provision", taskId: id, turn: 2 }));
  const stopped = await count("stop, of a running turn", () => stop(deps, userId, id));
  if (stopped.state.status !== "stopped") throw new Error(`it is ${stopped.state.status}, not stopped`);
  await count("stop, of a stopped one", () => stop(deps, userId, id));

  const keyed = { prompt: "true", sessionKey: "keyed" };
  await count("start, with Idempotency-Key", () => start(deps, userId, keyed, "bench-key"));
  await count("reap, nothing due", () => reap(deps, { dryRun: false, maxMs: 10_000 }));
  return counted;
}

function difference(after: Requests, before: Requests): Requests {
  const names = Object.keys(nothing) as (keyof Requests)[];
  return Object.fromEntries(names.map((name) => [name, after[name] - before[name]])) as unknown as Requests;
}

/** A separate table; requests to it are counted in `total`. */
export async function startEngine(total?: Requests) {
  const server = dynalite({ createTableMs: 0 });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("dynalite has no port");
  const endpoint = `http://127.0.0.1:${address.port}`;
  await createTables(endpoint, topology);
  const client = new DynamoDBClient(clientConfig(endpoint));
  client.middlewareStack.add(
    (next, { commandName = "" }) =>
      async (request) => {
        const answer = await next({
          ...request,
          input: { ...request.input, ReturnConsumedCapacity: "TOTAL" },
        });
        const units = unitsOf(answer.output);
        if (!total) return answer;
        if (writing.test(commandName)) {
          total.writes++;
          total.writeUnits += units;
        } else {
          total.reads++;
          total.readUnits += units;
        }
        return answer;
      },
    { step: "initialize" },
  );
  return {
    client,
    async [Symbol.asyncDispose](): Promise<void> {
      client.destroy();
      server.close();
      server.closeAllConnections();
    },
  };
}

function unitsOf(output: object): number {
  const { CapacityUnits = 0 } = (output as { ConsumedCapacity?: ConsumedCapacity }).ConsumedCapacity ?? {};
  return CapacityUnits;
}

/** Counts the calls of a port. */
function counting<T extends object>(port: T, add: () => void): T {
  const entries = Object.entries(port).map(([name, call]) => [
    name,
    (...given: unknown[]) => {
      add();
      return call(...given);
    },
  ]);
  return Object.fromEntries(entries) as T;
}

const realClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) => sleep(ms, undefined, signal && { signal }).catch(() => {}),
};

/** The real verbs on that table, with a provider in memory. */
export function composeDeps(
  client: DynamoDBClient,
  total: Requests = { ...nothing },
  environment: Record<string, string> = {},
  clock = realClock,
): EndingDeps & LaunchDeps {
  const config = parseConfig({ CONCIERGE_DEFAULT_AGENT: "shell", CONCIERGE_STAGE: "bench", ...environment });
  const store = createDynamoStore({ client, tableName: physicalName("Table"), clock });
  const sent = () => {
    total.messages++;
  };
  const called = () => {
    total.calls++;
  };
  const deps = {
    config,
    clock,
    ids: {
      task: () => createId("task", clock.now()),
      key: () => createId("key", clock.now()),
      claim: () => createId("claim", clock.now()),
      warm: () => createId("warm", clock.now()),
    },
    store,
    work: counting({ send: async () => {} }, sent),
    timers: counting({ arm: async () => {} }, sent),
    flags: createFlagReader({ store, clock }, config.flags),
    metrics: { count: () => {} },
    timeLeftMs: () => Number.POSITIVE_INFINITY,
    sealer: createSealer("a sealing key for benchmarks"),
    git: { readBranch: async () => undefined },
    provider: counting(createMemoryProvider({ clock }).provider, called),
    runner: "",
    callbackUrl: "http://127.0.0.1",
    agents: noAgents,
    limitTime: <T>(_ms: number, work: () => Promise<T>) => work(),
  };
  return deps;
}
