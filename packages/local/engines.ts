/**
 * The servers the functions talk to, each in a process of its own: their work is spread over the cores, and
 * one that dies takes nothing of another with it. It comes back on the same port, which functions know.
 */
import { join } from "node:path";
import type { Topology } from "../../infra/topology.ts";
import type { Principals } from "./access.ts";
import type { Credentials } from "./aws.ts";
import { startChild } from "./child.ts";
import type { GuardOptions } from "./children/guard.ts";
import { type Environment, hasRealProvider } from "./environment.ts";
import { basics } from "./function-environment.ts";
import { keepRunning } from "./keeper.ts";
import { createQueues } from "./queues.ts";
import { createTables } from "./tables.ts";

/** A database whose last owner was killed a moment ago is still locked. */
const START_ATTEMPTS = 8;

const PROCESSES = {
  DynamoDB: { module: child("dynamodb"), whenHostDies: "killed", graceMs: 2000 },
  SQS: { module: child("sqs"), whenHostDies: "killed", graceMs: 2000 },
  // It has processes of its own to end, and snapshots to take.
  Sandbox: { module: child("sandbox"), whenHostDies: "told", graceMs: 8000 },
} as const;

export interface EnginesOptions {
  topology: Topology;
  dataDir: string;
  env: Environment;
  principals: Principals;
  /** The host's own. */
  credentials: Credentials;
  /** Opens the sandbox API's control routes to who knows it: a sandbox can reach loopback as well. */
  controlToken: string | undefined;
  log: (line: string) => void;
}

export interface Endpoints {
  dynamodb: string;
  sqs: string;
  /** Where the local provider is, when no keys of the real one are there. */
  sandbox: string | undefined;
}

export function startEngines(options: EnginesOptions) {
  const { topology, dataDir, env, principals, credentials, controlToken, log } = options;
  const common = { env: basics(env), log };
  const access: GuardOptions = { principals, trace: controlToken !== undefined };
  const dynamodb = startEngine({
    ...common,
    name: "DynamoDB",
    init: { path: join(dataDir, "dynamodb"), access },
    prepare: (url) => createTables(url, topology, credentials),
  });
  const sqs = startEngine({
    ...common,
    name: "SQS",
    init: { access },
    prepare: (url) => createQueues(url, topology, credentials),
  });
  const needsSandbox = usesProvider(topology) && !hasRealProvider(env);
  const sandbox = needsSandbox
    ? startEngine({ ...common, name: "Sandbox", init: { dataDir: join(dataDir, "sandboxes"), controlToken } })
    : undefined;
  const all = [dynamodb, sqs, ...(sandbox ? [sandbox] : [])];

  return {
    async endpoints(): Promise<Endpoints> {
      const urls = await Promise.all([dynamodb.url, sqs.url, sandbox?.url]);
      return { dynamodb: urls[0], sqs: urls[1], sandbox: urls[2] };
    },
    processes: () => all.flatMap((engine) => engine.processes()),
    async stop(): Promise<void> {
      await Promise.all(all.map((engine) => engine.stop()));
    },
  };
}

interface EngineOptions {
  name: keyof typeof PROCESSES;
  init?: object;
  env: Record<string, string>;
  /** Makes what the topology asks for, each time the engine starts. */
  prepare?: (url: string) => Promise<void>;
  log: (line: string) => void;
}

function startEngine({ name, init, env, prepare = async () => {}, log }: EngineOptions) {
  const keeper = keepRunning({
    name,
    spawn: (port) => startChild({ ...PROCESSES[name], name, init: { ...init, port }, env, log }),
    prepare: (port) => prepare(urlOf(port)),
    startAttempts: START_ATTEMPTS,
    log,
  });
  const url = keeper.started.then(({ port }) => urlOf(port));
  // Who waits for the others first is told in the end.
  url.catch(() => {});
  return { url, processes: keeper.processes, stop: keeper.stop };
}

function urlOf(port: number): string {
  return `http://127.0.0.1:${port}`;
}

function child(name: string): URL {
  return new URL(`./children/${name}.ts`, import.meta.url);
}

function usesProvider(topology: Topology): boolean {
  return Object.values(topology.functions).some(({ environment }) => environment.includes("VERCEL_TOKEN"));
}
