import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { APIError, Sandbox } from "@vercel/sandbox";
import { expect, type TestContext, test } from "vitest";
import { localFetch, type SandboxApiOptions, startSandboxApi } from "../index.ts";

// With these three variables the suite runs against Vercel.
const { VERCEL_TOKEN, VERCEL_TEAM_ID, VERCEL_PROJECT_ID } = process.env;
export const isRemote = Boolean(VERCEL_TOKEN && VERCEL_TEAM_ID && VERCEL_PROJECT_ID);

const bin = path.join(import.meta.dirname, "../bin/vercel-sandbox-local.mjs");
const controlToken = "control";
/** The token of the service and two more, for tests that separate callers by their token. */
const tokens = ["token", "unlucky", "right"];
const eventuallyMs = 10_000;

type Test = (context: TestContext) => Promise<void>;
type CreateParams = NonNullable<Parameters<typeof Sandbox.create>[0]>;

export interface Credentials {
  token: string;
  teamId: string;
  projectId: string;
  fetch: typeof fetch;
}

/** A test that cannot run against Vercel. */
export function localTest(reason: string) {
  return (name: string, body: Test) =>
    test(name, async (context) => {
      if (isRemote) context.skip(`not on Vercel: ${reason}`);
      await body(context);
    });
}

/** A test that needs namespaces. It is skipped without them, and fails in CI. */
export function isolationTest(name: string, body: Test) {
  test(name, async (context) => {
    if (!isRemote && !hasBwrap) {
      if (process.env.CI === "true")
        throw new Error("bubblewrap does not work here: isolation is NOT TESTED");
      console.error(`ISOLATION IS NOT TESTED, bubblewrap does not work here: ${name}`);
      context.skip("bubblewrap does not work here");
    }
    await body(context);
  });
}

/** The service under test. Sandboxes created through it are deleted at the end. */
export async function openService(options: Partial<SandboxApiOptions> = {}) {
  const directory = await temporaryDirectory();
  const dataDir = options.dataDir ?? directory.path;
  const api = isRemote ? undefined : await startSandboxApi({ controlToken, tokens, ...options, dataDir });
  const credentials: Credentials = {
    token: VERCEL_TOKEN ?? "token",
    teamId: VERCEL_TEAM_ID ?? "team_test",
    projectId: VERCEL_PROJECT_ID ?? "prj_test",
    fetch: api ? localFetch(api.url) : fetch,
  };
  const created: Sandbox[] = [];
  const url = api?.url ?? "";

  return {
    url,
    dataDir,
    credentials,
    isolation: api?.isolation ?? "bwrap",
    async create(params: CreateParams = {}) {
      const sandbox = await Sandbox.create({ ...credentials, ...params } as CreateParams);
      created.push(sandbox);
      return sandbox;
    },
    async clearFaults() {
      await request(`${url}/_control/faults`, "DELETE");
    },
    async fault(fault: object) {
      await request(`${url}/_control/faults`, "POST", fault);
    },
    async latency(latency: object) {
      await request(`${url}/_control/latency`, "PUT", latency);
    },
    async stats() {
      const body = await request(`${url}/_control/stats`, "GET");
      return body as { routes: Record<string, { requests: number }>; running: number };
    },
    async [Symbol.asyncDispose]() {
      if (isRemote) await Promise.all(created.map((sandbox) => sandbox.delete().catch(() => {})));
      await api?.close();
      await directory[Symbol.asyncDispose]();
    },
  };
}

export type Service = Awaited<ReturnType<typeof openService>>;

/** The API in its own process, which can be killed. */
export async function spawnApi(dataDir: string, ...args: string[]) {
  const child = spawn(process.execPath, [bin, "--json", "--token", "token", "--data-dir", dataDir, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const gone = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  const { url } = JSON.parse(line) as { url: string };
  const credentials = { token: "token", teamId: "team_test", projectId: "prj_test", fetch: localFetch(url) };
  return {
    url,
    credentials,
    pid: child.pid ?? 0,
    async end(signal: NodeJS.Signals) {
      child.kill(signal);
      const [code] = await gone;
      return code;
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
      await gone;
    },
  };
}

export async function temporaryDirectory() {
  const directory = await mkdtemp(path.join(tmpdir(), "vercel-sandbox-local-"));
  return {
    path: directory,
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}

export async function eventually<T>(
  check: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  const deadline = Date.now() + eventuallyMs;
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > deadline) throw new Error("the condition was not met in time");
    await sleep(20);
  }
}

/** The status and code of the API error that the call rejects with. */
export async function refusedWith(
  call: Promise<unknown>,
): Promise<{ status: number; code: string | undefined }> {
  const error = await call.then(
    () => expect.fail("the call was not refused"),
    (reason: unknown) => reason,
  );
  if (!(error instanceof APIError)) throw error;
  const body = error.json as { error?: { code?: string } } | undefined;
  return { status: error.response.status, code: body?.error?.code };
}

export async function sh(sandbox: Sandbox, script: string): Promise<string> {
  const finished = await sandbox.runCommand("sh", ["-c", script]);
  const output = await finished.stdout();
  if (finished.exitCode !== 0) throw new Error(`exit ${finished.exitCode}: ${await finished.stderr()}`);
  return output.trim();
}

/** The peak memory of a process. */
export function peakMemoryMb(pid: number): number {
  const [, kilobytes] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kilobytes) / 1024;
}

export const hasBwrap = works("bwrap", ["--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "true"]);

function works(command: string, args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

async function request(url: string, method: string, body?: object): Promise<unknown> {
  const response = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${controlToken}`, "content-type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });
  expect(response.status, await response.clone().text()).toBe(200);
  return response.json();
}
