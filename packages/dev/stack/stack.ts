/** Starts the local stack: engines, sandbox API, the functions of a topology and what invokes them. */
import { randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import { canIsolate } from "vercel-sandbox-local";
import type { Queue, QueueSource, Topology } from "../../../infra/topology.ts";
import { createDashboard } from "../http/dashboard.ts";
import { startHttpFront } from "../http/front.ts";
import { createPrincipals } from "../iam/access.ts";
import { type Code, loadBundles, loadSources } from "../lambda/code.ts";
import { functionEnvironment, type StackContext } from "../lambda/function-environment.ts";
import { type FunctionPool, startFunctionPool } from "../lambda/function-pool.ts";
import { deadLetterQueue, queueUrl } from "../queues/queues.ts";
import { type SqsAccess, startQueueSource } from "../queues/source.ts";
import { type Credentials, physicalName } from "./aws.ts";
import { loadSecrets, lockDataDir, openDataDir } from "./data-dir.ts";
import { type Endpoints, startEngines } from "./engines.ts";
import {
  agentKeyWarning,
  checkEnvironment,
  type Environment,
  privateAccess,
  withDefaults,
} from "./environment.ts";
import { startSchedule } from "./schedule.ts";
import { createScope, type Scope } from "./scope.ts";

const readyTimeoutMs = 30_000;
const readyPollMs = 50;

export interface LocalStackOptions {
  topology: Topology;
  dataDir: string;
  /** 0, the default, picks a free one. */
  port?: number;
  /** Processes of the HTTP function, used in turn. */
  apiProcesses?: number;
  /** Overrides the rate of all schedules. */
  reapEveryMs?: number;
  /** Overrides by queue name. */
  visibilityTimeoutMs?: Readonly<Record<string, number>>;
  /** When a failed message is delivered again. AWS waits for the visibility timeout. */
  retryDelayMs?: number;
  /** The address that runners call; by default the stack's. */
  callbackUrl?: string;
  /** The functions' variables come from here; by default `process.env`. */
  env?: Environment;
  /** "none" runs local sandboxes as plain processes, as on a machine without user namespaces. */
  isolation?: "auto" | "none";
  /** Starts even if several users would share this machine without isolation. */
  allowUnisolated?: boolean;
  /** A directory of bundles to run instead of the sources. */
  bundles?: string;
  /** Replaces our stand-in for Lambda's runtime. */
  runtime?: URL;
  /** Polled at the start until it answers 200. */
  readyPath?: string;
  onLog?: (line: string) => void;
  /** Aborts the start. */
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
  /** The token of the local sandbox API, new with each start. */
  sandboxToken: string;
  /** The host's credentials, with full access to the engines. */
  credentials: Credentials;
  /** Builds the dashboard now instead of at the first request for it. */
  prepareDashboard(): Promise<void>;
  processes(): { name: string; pid: number }[];
  /** The functions and what invokes them, as started. */
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
  const dashboard = createDashboard();
  scope.add(async () => dashboard.close());
  const front = await startHttpFront(options.port ?? 0, log, dashboard);
  scope.add(front.close);
  const secrets = await loadSecrets(dataDir, topology, env.CONCIERGE_API_KEY);

  log("starting the engines");
  const controlToken = env.CONCIERGE_DEV_CONTROL === "true" ? secrets.AdminApiKey : undefined;
  const { principals, host, functions } = createPrincipals(topology);
  const sandboxToken = randomBytes(24).toString("base64url");
  const callbackUrl = options.callbackUrl ?? front.url;
  const engines = startEngines({
    topology,
    dataDir,
    env,
    principals,
    credentials: host,
    controlToken,
    sandboxToken,
    network: privateAccess(env, callbackUrl),
    isolation: options.isolation ?? "auto",
    log,
  });
  scope.add(engines.stop);
  const [endpoints, code] = await Promise.all([
    engines.endpoints(),
    options.bundles ? loadBundles(topology, options.bundles) : loadSources(topology, join(dataDir, "assets")),
  ]);
  if (endpoints.sandbox) log(`the sandbox API is at ${endpoints.sandbox} with token ${sandboxToken}`);

  const isIsolated = !endpoints.sandbox || (options.isolation !== "none" && canIsolate());
  const mayShare = isIsolated || options.allowUnisolated === true;
  const warning = agentKeyWarning(env, isIsolated);
  if (warning) log(warning);
  log("starting the functions");
  const variables = withDefaults(
    mayShare ? env : { ...env, CONCIERGE_SINGLE_USER: "true" },
    callbackUrl,
    endpoints.sandbox === undefined ? undefined : { url: endpoints.sandbox, token: sandboxToken },
  );
  const context = { topology, variables, secrets, endpoints, credentials: functions };
  const pools = startFunctions(code, context, join(dataDir, "cache"), options, log);
  scope.add(() => stopAll(pools));
  front.serve(routeTo(topology, pools));
  await Promise.all(pools.map((pool) => pool.started));
  await untilOk(new URL(readyPath, front.url));
  if (!mayShare) {
    await assertOneUser(front.url, secrets.AdminApiKey ?? "", variables.CONCIERGE_ADMIN_USER_ID ?? "");
  }

  const sqs = (name: string) => ({ endpoint: endpoints.sqs, host, own: functions[name] ?? host });
  const invokers = pools.flatMap((pool) => startInvokers(pool, topology, sqs(pool.name), options, log));
  scope.add(async () => {
    // At once: invocations in flight end with their function.
    await Promise.all([front.close(), stopAll(invokers), stopAll(pools)]);
  });

  return {
    url: front.url,
    apiKey: secrets.AdminApiKey ?? "",
    userId: variables.CONCIERGE_ADMIN_USER_ID ?? "",
    tableName: physicalName(Object.keys(topology.table)[0] ?? ""),
    queueUrls: queueUrls(topology, endpoints.sqs),
    endpoints,
    sandboxToken,
    credentials: host,
    functions: pools,
    invokers,
    prepareDashboard: dashboard.prepare,
    processes: () => [engines, ...pools].flatMap((part) => part.processes()),
    close: scope.close,
    [Symbol.asyncDispose]: scope.close,
  };
}

function startFunctions(
  code: readonly Code[],
  context: StackContext,
  cacheDir: string,
  { apiProcesses = 1, runtime }: LocalStackOptions,
  log: (line: string) => void,
): FunctionPool[] {
  return code.map((one) =>
    startFunctionPool({
      name: one.name,
      definition: one.definition,
      env: functionEnvironment(one, context),
      cacheDir,
      runtime,
      processes: one.definition.http && one.definition.path === undefined ? apiProcesses : 1,
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

/** Stands in for CloudFront: the function whose path the request's path, as it was sent, starts with. */
function routeTo(topology: Topology, pools: FunctionPool[]): (path: string) => FunctionPool {
  const served = pools.filter(({ name }) => topology.functions[name]?.http);
  const pathOf = ({ name }: FunctionPool) => topology.functions[name]?.path;
  const [main] = served.filter((pool) => pathOf(pool) === undefined);
  if (!main) throw new Error("no function of the topology serves HTTP");
  const routed = served.filter((pool) => pool !== main);
  return (path) => routed.find((pool) => path.startsWith(`${pathOf(pool)}/`)) ?? main;
}

function queueUrls(topology: Topology, endpoint: string): Record<string, string> {
  const names = Object.keys(topology.queues).flatMap((name) => [name, deadLetterQueue(name)]);
  return Object.fromEntries(names.map((name) => [name, queueUrl(endpoint, name)]));
}

async function untilOk(url: URL): Promise<void> {
  const deadline = Date.now() + readyTimeoutMs;
  for (;;) {
    const response = await fetch(url);
    await response.body?.cancel();
    if (response.status === 200) return;
    if (Date.now() > deadline) throw new Error(`GET ${url.pathname} still answers ${response.status}`);
    await new Promise((next) => setTimeout(next, readyPollMs));
  }
}

/** Without isolation, a task of one user can read the files, secrets and tokens of the others. */
async function assertOneUser(url: string, apiKey: string, adminUserId: string): Promise<void> {
  let cursor: string | null = "";
  while (cursor !== null) {
    const page = new URL(`/v1/keys?${cursor && `cursor=${encodeURIComponent(cursor)}`}`, url);
    const response = await fetch(page, { headers: { authorization: `Bearer ${apiKey}` } });
    // A topology of another app has no keys.
    if (response.status === 404) return void (await response.body?.cancel());
    if (!response.ok) throw new Error(`the users could not be counted: /v1/keys answers ${response.status}`);
    const { items, cursor: next } = (await response.json()) as KeysPage;
    const other = items.find(({ userId }) => userId !== adminUserId);
    if (other) {
      throw new Error(
        `sandboxes are NOT ISOLATED here, and the user ${other.userId} has a key beside ${adminUserId}: install bubblewrap and iproute2, or start with --allow-unisolated`,
      );
    }
    cursor = next;
  }
}

interface KeysPage {
  items: { userId: string }[];
  cursor: string | null;
}

async function stopAll(parts: { stop(): Promise<void> }[]): Promise<void> {
  await Promise.all(parts.map((part) => part.stop()));
}
