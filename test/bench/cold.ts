import { fork } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundle, bundleFunctions, sizeOf } from "@concierge/bundler";
import { createId } from "@concierge/core";
import { physicalName } from "@concierge/dev";
import { createDynamoStore } from "@concierge/store";
import { topology } from "../../infra/topology.ts";
import { type Engine, startDynalite } from "../testing/dynamodb.ts";
import { type Benchmark, type Figure, interleaved, percentile } from "./harness.ts";

const rounds = 25;
const userId = "bench";
const adminKey = "a-key-for-benchmarks-only";
/** As SST bundles it by default, in one file. */
const bare = "Hono + client-dynamodb, one get";

interface Start {
  status: number;
  loadMs: number;
  answeredMs: number;
  cpuMs: number;
  files: string[];
}

export const cold: Benchmark = {
  name: "cold",
  about: "a cold start of the api's bundle: a fresh process, loaded, a task read; and what it is made of",
  async run() {
    const directory = await mkdtemp(join(tmpdir(), "concierge-bench-"));
    const engine = await startDynalite();
    try {
      const { Api } = topology.functions;
      const { Api: api } = await bundleFunctions({ ...topology, functions: { Api } }, directory);
      const module = fileURLToPath(new URL("./cold/bare.ts", import.meta.url));
      const whole = await bundle(module, join(directory, bare), { splitting: false });
      if (!api) throw new Error("no bundle of the api");
      const path = `/v1/tasks/${await createTask(engine)}`;
      const startBundle = (name: string, hooks: string[] = []) =>
        start(join(directory, name), path, environment(engine.endpoint), hooks);
      return [
        ...(await times(startBundle)),
        ...(await loaded(startBundle)),
        size("bundle, all of it", sizeOf(api).totalBytes, sizeOf(whole).totalBytes),
      ];
    } finally {
      await engine.close();
      await rm(directory, { recursive: true, force: true });
    }
  },
};

type StartBundle = (name: string, hooks?: string[]) => Promise<Start>;

async function times(startBundle: StartBundle): Promise<Figure[]> {
  const starts: Record<string, Start[]> = { Api: [], [bare]: [] };
  const contender = (name: string) => async () => void starts[name]?.push(await startBundle(name));
  await interleaved(rounds, Object.keys(starts).map(contender));
  const p50 = (name: string, pick: (start: Start) => number) =>
    percentile((starts[name] ?? []).map(pick), 50);
  const figure = (about: string, pick: (start: Start) => number): Figure => ({
    what: about,
    unit: "ms",
    value: p50("Api", pick),
    baseline: { what: bare, value: p50(bare, pick) },
  });
  const answered = ({ answeredMs }: Start) => answeredMs;
  const untilAnswered = "first request answered, from the process's start, p50";
  return [
    figure("bundle loaded, p50", ({ loadMs }) => loadMs),
    { ...figure(untilAnswered, answered), target: { of: "ratio", atMost: 1.3 } },
    // The same on a busy machine.
    figure("CPU time until then, p50", ({ cpuMs }) => cpuMs),
  ];
}

/** Measured separately: recording every loaded file takes time itself. */
async function loaded(startBundle: StartBundle): Promise<Figure[]> {
  const hooks = [fileURLToPath(new URL("./cold/files.mjs", import.meta.url))];
  const bytes = async (name: string) => {
    const { files } = await startBundle(name, hooks);
    return files
      .filter((file) => decodeURI(file).includes(`/${name}/`))
      .reduce((sum, file) => sum + statSync(file).size, 0);
  };
  const about = "code loaded by then";
  const ours = await bytes("Api");
  return [{ ...size(about, ours, await bytes(bare)), target: { of: "ratio", atMost: 1.3 } }];
}

function size(about: string, ours: number, theirs: number, against = bare): Figure {
  return { what: about, unit: "KB", value: ours / 1000, baseline: { what: against, value: theirs / 1000 } };
}

async function start(root: string, path: string, env: NodeJS.ProcessEnv, hooks: string[]): Promise<Start> {
  const script = fileURLToPath(new URL("./cold/start.mjs", import.meta.url));
  const child = fork(script, [join(root, "bundle.mjs"), path, adminKey], {
    cwd: root,
    env,
    execArgv: hooks.flatMap((hook) => ["--import", hook]),
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const [[answer]] = await Promise.all([once(child, "message"), once(child, "exit")]);
  const result = answer as Start;
  if (result.status !== 200) throw new Error(`${path} answered ${result.status}`);
  return result;
}

async function createTask({ client }: Engine): Promise<string> {
  const now = Date.now();
  const clock = { now: () => now, sleep: async () => {} };
  const store = createDynamoStore({ client, tableName: physicalName("Table"), clock });
  const id = createId("task", now);
  const { won } = await store.createTask({
    id,
    userId,
    sessionKey: "default",
    agent: "shell",
    prompt: "echo hello",
    keepAlive: true,
    limits: { maxDurationMs: 300_000, inactivityMs: 60_000 },
    metadata: {},
    turn: 1,
    state: { status: "queued" },
    createdAt: now,
    deadlineAt: now + 300_000,
    lastActivityAt: now,
    outputSeq: 0,
    past: [],
    phases: [{ turn: 1, status: "queued", at: now, by: "api" }],
    phaseCount: 1,
    notices: [],
    expiresAt: now + 86_400_000,
  });
  if (!won) throw new Error("the task could not be written");
  return id;
}

/** What these two need of Lambda's environment. */
function environment(endpoint: string): NodeJS.ProcessEnv {
  const queue = { url: "http://127.0.0.1:9/queue" };
  const resources = {
    App: { name: "concierge", stage: "bench" },
    Table: { name: physicalName("Table") },
    WorkQueue: queue,
    TimerQueue: queue,
    AdminApiKey: { value: adminKey },
    SealingKey: { value: "a sealing key for benchmarks" },
  };
  return {
    PATH: process.env.PATH,
    AWS_REGION: "us-east-1",
    AWS_ACCESS_KEY_ID: "local",
    AWS_SECRET_ACCESS_KEY: "local",
    AWS_ENDPOINT_URL_DYNAMODB: endpoint,
    AWS_LAMBDA_FUNCTION_NAME: "Api",
    TABLE_NAME: physicalName("Table"),
    CONCIERGE_ADMIN_USER_ID: userId,
    API_EXPLORER_FILE: "openapi-explorer.min.js",
    ...Object.fromEntries(
      Object.entries(resources).map(([name, resource]) => [`SST_RESOURCE_${name}`, JSON.stringify(resource)]),
    ),
  };
}
