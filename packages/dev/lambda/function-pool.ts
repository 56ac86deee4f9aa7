/** Runs the processes of one function and invokes it. */
import { randomBytes, randomUUID } from "node:crypto";
import { Agent, type IncomingMessage, request } from "node:http";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type { FunctionDefinition } from "../../../infra/topology.ts";
import { startChild } from "../processes/child.ts";
import { type Keeper, keepRunning, type Running } from "../processes/keeper.ts";
import { arn, physicalName } from "../stack/aws.ts";
import { ownHost } from "./connect.ts";

/** How long an invocation waits for a process that is restarting. */
const processWaitMs = 10_000;
const graceMs = 2000;
const deathNoticeMs = 500;

export type Failure = "unavailable" | "died" | "timed_out" | "function_error";

export class InvocationError extends Error {
  readonly failure: Failure;

  constructor(failure: Failure, message: string) {
    super(message);
    this.failure = failure;
  }
}

export interface FunctionPoolOptions {
  name: string;
  definition: FunctionDefinition;
  env: Record<string, string>;
  processes: number;
  /** The module that stands in for Lambda's runtime; `function.ts` by default. */
  runtime?: URL | undefined;
  /** For Node's compile cache. */
  cacheDir: string;
  log: (line: string) => void;
}

export type FunctionPool = ReturnType<typeof startFunctionPool>;

export function startFunctionPool(options: FunctionPoolOptions) {
  const { name, definition, env, processes, cacheDir, log } = options;
  const { runtime = new URL("./function.ts", import.meta.url) } = options;
  // Any local process can reach a function's port. Only the host knows the token.
  const token = randomBytes(32).toString("base64url");
  const agent = new Agent({ keepAlive: true });
  const inFlight = new Map<Running, number>();
  const retired = new Set<Running>();
  const keepers = Array.from({ length: processes }, (_, index) => keep(`${name}#${index + 1}`));
  let nextProcess = 0;

  return {
    name,
    timeoutMs: definition.timeoutMs,
    started: Promise.all(keepers.map((keeper) => keeper.started)),
    whenReady: () => Promise.race(keepers.map((keeper) => keeper.whenReady())),
    processes: () => keepers.flatMap((keeper) => keeper.processes()),
    invoke,
    /** Invokes a handler that returns a result. */
    invokeForResult: (event: string) => invoke(event, (response) => json(response)),
    async stop(): Promise<void> {
      await Promise.all(keepers.map((keeper) => keeper.stop()));
      agent.destroy();
    },
  };

  function keep(processName: string): Keeper {
    const spawn = () =>
      startChild({
        name: processName,
        module: runtime,
        init: { token, cacheDir },
        env,
        cwd: env.LAMBDA_TASK_ROOT,
        log,
        whenHostDies: "kill",
        graceMs: graceMs,
      });
    return keepRunning({ name: processName, spawn, startAttempts: 1, log });
  }

  /**
   * `event` is JSON. `consume` gets the response when it starts; the invocation lasts until `consume` settles. On a
   * timeout only this invocation fails: a new process takes over, and the old one ends after its other invocations.
   */
  async function invoke<Result>(
    event: string,
    consume: (response: IncomingMessage) => Promise<Result>,
  ): Promise<Result> {
    const running = await pickProcess();
    const deadline = startDeadline(definition.timeoutMs);
    inFlight.set(running, (inFlight.get(running) ?? 0) + 1);
    try {
      const response = await send(running, event, deadline.signal);
      if (response.headers["x-amz-function-error"]) throw await functionError(response);
      return await consume(response);
    } catch (error) {
      if (error instanceof InvocationError) throw error;
      if (deadline.signal.aborted) {
        retire(running);
        throw new InvocationError("timed_out", `${name} timed out after ${definition.timeoutMs} ms`);
      }
      // The caller may retry as soon as it sees the failure. Wait until the keeper has noticed the exit; otherwise the
      // retry goes to the same dead process.
      await Promise.race([running.child.exited, sleep(deathNoticeMs, undefined, { ref: false })]);
      if (!isRefused(error))
        throw new InvocationError("died", `${name} died during an invocation (${error})`);
    } finally {
      deadline.clear();
      release(running);
    }
    // The connection was refused, so no handler saw the event. Invoke the next process.
    return invoke(event, consume);
  }

  function send(running: Running, event: string, signal: AbortSignal): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const outgoing = request({
        host: ownHost,
        port: running.port,
        method: "POST",
        agent,
        signal,
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          "lambda-runtime-aws-request-id": randomUUID(),
          "lambda-runtime-deadline-ms": Date.now() + definition.timeoutMs,
          "lambda-runtime-invoked-function-arn": arn("lambda", `function:${physicalName(name)}`),
        },
      });
      outgoing.once("response", resolve).on("error", reject).end(event);
    });
  }

  async function pickProcess(): Promise<Running> {
    const first = nextProcess++;
    for (let offset = 0; offset < keepers.length; offset++) {
      const running = keepers[(first + offset) % keepers.length]?.current;
      if (running) return running;
    }
    const { promise: timeout, reject } = Promise.withResolvers<never>();
    const unavailable = new InvocationError("unavailable", `${name} has no running process`);
    const timer = setTimeout(() => reject(unavailable), processWaitMs);
    try {
      return await Promise.race([timeout, ...keepers.map((keeper) => keeper.whenReady())]);
    } finally {
      clearTimeout(timer);
    }
  }

  function retire(running: Running): void {
    for (const keeper of keepers) keeper.replace(running);
    retired.add(running);
  }

  function release(running: Running): void {
    const left = (inFlight.get(running) ?? 1) - 1;
    if (left > 0) return void inFlight.set(running, left);
    inFlight.delete(running);
    if (retired.delete(running)) void running.child.stop();
  }
}

async function functionError(response: IncomingMessage): Promise<InvocationError> {
  const { errorType, errorMessage } = (await json(response)) as Record<string, string>;
  return new InvocationError("function_error", `${errorType}: ${errorMessage}`);
}

function isRefused(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ECONNREFUSED";
}

/** Unlike `AbortSignal.timeout`, the timer can be cleared: it runs for minutes, an invocation for milliseconds. */
function startDeadline(timeoutMs: number) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), timeoutMs);
  return { signal: controller.signal, clear: () => clearTimeout(timer) };
}
