import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import {
  type Clock,
  carryOut,
  continueTask,
  createFlagReader,
  createId,
  createSealer,
  type EndingDeps,
  type LaunchDeps,
  parseConfig,
  reportEnd,
  start,
  stop,
  takeBeat,
  takeOutput,
} from "@concierge/core";
import { clientConfig, createTables, physicalName } from "@concierge/local";
import { createMemoryProvider } from "@concierge/provider";
import { SandboxSessionManager } from "@concierge/sessions";
import { createDynamoStore } from "@concierge/store";
import dynalite from "dynalite";
import { topology } from "../../infra/topology.ts";
import { noAgents } from "../fixtures/agents.ts";
import type { Benchmark, Figure } from "./harness.ts";

const userId = "bench";
const atMost = 2;
const writing = /\.(Put|Update|Delete|BatchWrite|TransactWrite)Item/;

export const writes: Benchmark = {
  name: "writes",
  about: "requests to write that reach the DynamoDB engine, by verb",
  async run() {
    await using engine = await startCountingEngine();
    const deps = composeDeps(engine.client);
    const figures: Figure[] = [];
    const count = async <T>(what: string, bound: number | undefined, verb: () => Promise<T>): Promise<T> => {
      const before = engine.written();
      const result = await verb();
      const target =
        bound === undefined ? {} : { target: { of: "value", atMost: bound, firm: true } as const };
      figures.push({ what, unit: "writes", value: engine.written() - before, ...target });
      return result;
    };
    const batch = {
      seq: 1,
      chunks: [{ stream: "stdout" as const, at: Date.now(), data: Buffer.from("x\n") }],
    };
    const end = { exitCode: 0, signal: null, reason: "exited", outputCutBytes: 0, text: "" } as const;

    const { id } = await count("start", atMost, () => start(deps, userId, { prompt: "true" }));
    const first = { taskId: id, turn: 1 };
    await count("provision, cold", undefined, () => carryOut(deps, { kind: "provision", ...first }));
    await count("a batch of output", atMost, () => takeOutput(deps, first, batch));
    await count("a beat", undefined, () => takeBeat(deps, first, "none"));
    await count("an end, by the runner", atMost, () => reportEnd(deps, first, { ...end, lastSeq: 1 }));

    await count("continue", atMost, () => continueTask(deps, userId, id, { prompt: "true" }));
    await count("provision, reused", undefined, () =>
      carryOut(deps, { kind: "provision", taskId: id, turn: 2 }),
    );
    const stopped = await count("stop, of a running turn", atMost, () => stop(deps, userId, id));
    if (stopped.state.status !== "stopped") throw new Error(`it is ${stopped.state.status}, not stopped`);
    await count("stop, of a stopped one", 0, () => stop(deps, userId, id));

    const keyed = { prompt: "true", sessionKey: "keyed" };
    await count("start, with Idempotency-Key", undefined, () => start(deps, userId, keyed, "bench-key"));
    return figures;
  },
};

async function startCountingEngine() {
  const server = dynalite({ createTableMs: 0 });
  let written = 0;
  server.on("request", ({ headers }) => {
    if (writing.test(String(headers["x-amz-target"]))) written++;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("dynalite has no port");
  const endpoint = `http://127.0.0.1:${address.port}`;
  await createTables(endpoint, topology);
  const client = new DynamoDBClient(clientConfig(endpoint));
  return {
    client,
    written: () => written,
    async [Symbol.asyncDispose](): Promise<void> {
      client.destroy();
      server.close();
      server.closeAllConnections();
    },
  };
}

function composeDeps(client: DynamoDBClient): EndingDeps & LaunchDeps {
  const clock: Clock = {
    now: () => Date.now(),
    sleep: (ms, signal) => sleep(ms, undefined, signal && { signal }).catch(() => {}),
  };
  const config = parseConfig({ CONCIERGE_DEFAULT_AGENT: "shell", CONCIERGE_STAGE: "bench" });
  const store = createDynamoStore({ client, tableName: physicalName("Table"), clock });
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
    work: { send: async () => {} },
    timers: { arm: async () => {} },
    flags: createFlagReader({ store, clock }, config.flags),
    metrics: { count: () => {} },
    sealer: createSealer("a sealing key for benchmarks"),
    git: { readBranch: async () => undefined },
    provider: createMemoryProvider({ clock }).provider,
    runner: "",
    callbackUrl: "http://127.0.0.1",
    agents: noAgents,
    webhooks: { send: async () => ({ kind: "delivered" }) as const },
  };
  return { ...deps, sessions: new SandboxSessionManager({ ...config, ...deps }) };
}
