/** Starts DynamoDB, SQS and the sandbox API, each in its own process. One that dies restarts on the same port. */
import { join } from "node:path";
import type { Topology } from "../../../infra/topology.ts";
import type { Principals } from "../iam/access.ts";
import type { GuardOptions } from "../iam/guard.ts";
import { ownHost } from "../lambda/connect.ts";
import { basics } from "../lambda/function-environment.ts";
import { startChild } from "../processes/child.ts";
import { keepRunning } from "../processes/keeper.ts";
import { createQueues } from "../queues/queues.ts";
import type { Credentials } from "./aws.ts";
import { type Environment, hasRealProvider, type PrivateAccess } from "./environment.ts";
import { createTables } from "./tables.ts";

/** LevelDB may still be locked for a moment after its owner was killed. */
const startAttempts = 8;

const engineProcesses = {
  DynamoDB: { module: child("dynamodb"), whenHostDies: "kill", graceMs: 2000 },
  SQS: { module: child("sqs"), whenHostDies: "kill", graceMs: 2000 },
  // It has to stop sandboxes and write snapshots.
  Sandbox: { module: child("sandbox"), whenHostDies: "notify", graceMs: 8000 },
} as const;

export interface EnginesOptions {
  topology: Topology;
  dataDir: string;
  env: Environment;
  principals: Principals;
  /** The host's. */
  credentials: Credentials;
  /** The only bearer token that the sandbox API accepts. */
  sandboxToken: string;
  /** Private addresses that sandboxes may reach. */
  network: PrivateAccess;
  isolation: "auto" | "none";
  /** Enables the sandbox API's control routes, which need this token. */
  controlToken: string | undefined;
  log: (line: string) => void;
}

export interface Endpoints {
  dynamodb: string;
  sqs: string;
  /** The local provider. Undefined if keys of the real one are set. */
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
    ? startEngine({
        ...common,
        name: "Sandbox",
        init: {
          dataDir: join(dataDir, "sandboxes"),
          tokens: [options.sandboxToken],
          network: options.network,
          isolation: options.isolation,
          controlToken,
        },
      })
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
  name: keyof typeof engineProcesses;
  init?: object;
  env: Record<string, string>;
  /** Creates tables or queues each time the engine starts. */
  prepare?: (url: string) => Promise<void>;
  log: (line: string) => void;
}

function startEngine({ name, init, env, prepare = async () => {}, log }: EngineOptions) {
  const keeper = keepRunning({
    name,
    spawn: (port) => startChild({ ...engineProcesses[name], name, init: { ...init, port }, env, log }),
    prepare: (port) => prepare(urlOf(port)),
    startAttempts: startAttempts,
    log,
  });
  const url = keeper.started.then(({ port }) => urlOf(port));
  // `endpoints()` reports a rejection; it may be called later.
  url.catch(() => {});
  return { url, processes: keeper.processes, stop: keeper.stop };
}

function urlOf(port: number): string {
  return `http://${ownHost}:${port}`;
}

function child(name: string): URL {
  return new URL(`../processes/${name}.ts`, import.meta.url);
}

function usesProvider(topology: Topology): boolean {
  return Object.values(topology.functions).some(({ environment }) => environment.includes("VERCEL_TOKEN"));
}
