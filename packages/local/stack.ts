/** The embedded stack: engines, the sandbox API, the functions of a topology and what invokes them. */
import { join, resolve } from "node:path";
import type { Queue, QueueSource, Topology } from "../../infra/topology.ts";
import { createPrincipals } from "./access.ts";
import { type Credentials, physicalName } from "./aws.ts";
import { type Code, loadBundles, loadSources } from "./code.ts";
import { loadSecrets, lockDataDir, openDataDir } from "./data-dir.ts";
import { type Endpoints, startEngines } from "./engines.ts";
import { aboutKeys, checkEnvironment, type Environment, withDefaults } from "./environment.ts";
import { functionEnvironment, type Surroundings } from "./function-environment.ts";
import { type FunctionPool, startFunctionPool } from "./function-pool.ts";
import { startHttpFront } from "./http-front.ts";
import { type SqsAccess, startQueueSource } from "./queue-source.ts";
import { deadLetterQueue, queueUrl } from "./queues.ts";
import { startSchedule } from "./schedule.ts";
import { createScope, type Scope } from "./scope.ts";

const READY_WITHIN_MS = 30_000;
const READY_POLL_MS = 50;

export interface LocalStackOptions {
  topology: Topology;
  dataDir: string;
  /** 0, the default, is any free one. */
  port?: number;
  /** Processes of the function behind HTTP, taken in turn. */
  apiProcesses?: number;
  /** Instead of every schedule's own rate. */
  reapEveryMs?: number;
  /** Instead of the queues' own, by name. */
  visibilityTimeoutMs?: Readonly<Record<string, number>>;
  /** When a message whose invocation failed is delivered again; AWS waits for the visibility timeout. */
  retryDelayMs?: number;
  /** Where runners call back, instead of the stack's own address. */
  callbackUrl?: string;
  /** What functions are handed variables from. */
  env?: Environment;
  /** A directory of the functions' bundles, which are run instead of their sources. */
  bundles?: string;
  /** Runs the functions instead of our own stand-in for Lambda's runtime. */
  runtime?: URL;
  /** Asked for until it answers 200. */
  readyPath?: string;
  onLog?: (line: string) => void;
  /** Ends a start that is under way. */
  signal?: AbortSignal;
}

export interface LocalStack extends AsyncDisposable {
  url: string;
  apiKey: string;
  userId: string;
  /** The topology's first table. */
  tableName: string;
  queueUrls: Record<string, string>;
  endpoints: Endpoints;
  /** For everything at the engines; a function has its own. */
  credentials: Credentials;
  processes(): { name: string; pid: number }[];
  /** What the functions run with, and what invokes them, as they were started. */
  functions: readonly { name: string; timeoutMs: number }[];
  invokers: readonly Invoker[];
  close(): Promise<void>;
}

export interface Invoker {
  function: string;
  source?: QueueSource;
  everyMs?: number;
}

export async function startLocalStack(options: LocalStackOptions): Promise<LocalStack> {
  options.signal?.throwIfAborted();
  const scope = createScope();
  const abort = () => void scope.close();
  options.signal?.addEventListener("abort", abort);
  try {
    return await start(options, scope);
  } catch (error) {
    await scope.close();
    throw error;
  } finally {
    options.signal?.removeEventListener("abort", abort);
  }
}

async function start(options: LocalStackOptions, scope: Scope): Promise<LocalStack> {
  const { env = process.env, onLog: log = () => {}, readyPath = "/healthz" } = options;
  checkEnvironment(env);
  const topology = withVisibility(options.topology, options.visibilityTimeoutMs ?? {});
  const dataDir = resolve(options.dataDir);
  await openDataDir(dataDir);
  scope.add(await lockDataDir(dataDir));
  const front = await startHttpFront(options.port ?? 0, log);
  scope.add(front.close);
  const secrets = await loadSecrets(dataDir, topology, env.CONCIERGE_API_KEY);

  log("starting the engines");
  const controlToken = env.CONCIERGE_DEV_CONTROL === "true" ? secrets.AdminApiKey : undefined;
  const { principals, host, functions } = createPrincipals(topology);
  const engines = startEngines({
    topology,
    dataDir,
    env,
    principals,
    credentials: host,
    controlToken,
    log,
  });
  scope.add(engines.stop);
  const [endpoints, code] = await Promise.all([
    engines.endpoints(),
    options.bundles ? loadBundles(topology, options.bundles) : loadSources(topology, join(dataDir, "assets")),
  ]);
  if (endpoints.sandbox) log(`the sandbox API is at ${endpoints.sandbox}`);

  const keys = aboutKeys(env);
  if (keys) log(keys);
  log("starting the functions");
  const variables = withDefaults(env, options.callbackUrl ?? front.url, endpoints.sandbox);
  const around = { topology, variables, secrets, endpoints, credentials: functions };
  const pools = startFunctions(code, around, join(dataDir, "cache"), options, log);
  scope.add(() => stopAll(pools));
  front.serve(httpPool(topology, pools));
  await Promise.all(pools.map((pool) => pool.started));
  await untilOk(new URL(readyPath, front.url));

  const sqs = (name: string) => ({ endpoint: endpoints.sqs, host, own: functions[name] ?? host });
  const invokers = pools.flatMap((pool) => startInvokers(pool, topology, sqs(pool.name), options, log));
  scope.add(async () => {
    // Side by side: what is in flight ends with its function.
    await Promise.all([front.close(), stopAll(invokers), stopAll(pools)]);
  });

  return {
    url: front.url,
    apiKey: secrets.AdminApiKey ?? "",
    userId: variables.CONCIERGE_ADMIN_USER_ID ?? "",
    tableName: physicalName(Object.keys(topology.table)[0] ?? ""),
    queueUrls: queueUrls(topology, endpoints.sqs),
    endpoints,
    credentials: host,
    functions: pools,
    invokers,
    processes: () => [engines, ...pools].flatMap((part) => part.processes()),
    close: scope.close,
    [Symbol.asyncDispose]: scope.close,
  };
}

function startFunctions(
  code: readonly Code[],
  around: Surroundings,
  cacheDir: string,
  { apiProcesses = 1, runtime }: LocalStackOptions,
  log: (line: string) => void,
): FunctionPool[] {
  return code.map((one) =>
    startFunctionPool({
      name: one.name,
      definition: one.definition,
      env: functionEnvironment(one, around),
      cacheDir,
      runtime,
      processes: one.definition.http ? apiProcesses : 1,
      log,
    }),
  );
}

function startInvokers(
  pool: FunctionPool,
  topology: Topology,
  sqs: SqsAccess,
  { retryDelayMs = 1000, reapEveryMs }: LocalStackOptions,
  log: (line: string) => void,
): (Invoker & { stop(): Promise<void> })[] {
  const { sources = [], scheduleEveryMs } = topology.functions[pool.name] ?? {};
  const schedules =
    scheduleEveryMs === undefined ? [] : [startSchedule(pool, reapEveryMs ?? scheduleEveryMs, log)];
  return [
    ...sources.map((source) => startQueueSource({ source, pool, sqs, retryDelayMs, log })),
    ...schedules,
  ];
}

function withVisibility(topology: Topology, overrides: Readonly<Record<string, number>>): Topology {
  const queues = Object.entries(topology.queues).map(([name, queue]): [string, Queue] => [
    name,
    { ...queue, visibilityTimeoutMs: overrides[name] ?? queue.visibilityTimeoutMs },
  ]);
  return { ...topology, queues: Object.fromEntries(queues) };
}

function httpPool(topology: Topology, pools: FunctionPool[]): FunctionPool {
  const pool = pools.find(({ name }) => topology.functions[name]?.http);
  if (!pool) throw new Error("no function of the topology is reached over HTTP");
  return pool;
}

function queueUrls(topology: Topology, endpoint: string): Record<string, string> {
  const names = Object.keys(topology.queues).flatMap((name) => [name, deadLetterQueue(name)]);
  return Object.fromEntries(names.map((name) => [name, queueUrl(endpoint, name)]));
}

async function untilOk(url: URL): Promise<void> {
  const deadline = Date.now() + READY_WITHIN_MS;
  for (;;) {
    const response = await fetch(url);
    await response.body?.cancel();
    if (response.status === 200) return;
    if (Date.now() > deadline) throw new Error(`GET ${url.pathname} still answers ${response.status}`);
    await new Promise((next) => setTimeout(next, READY_POLL_MS));
  }
}

async function stopAll(parts: { stop(): Promise<void> }[]): Promise<void> {
  await Promise.all(parts.map((part) => part.stop()));
}
