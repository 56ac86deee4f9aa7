import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type LiveSandbox, ProviderError } from "@concierge/core";
import { Sandbox } from "@vercel/sandbox";
import { type SandboxApi, startSandboxApi } from "vercel-sandbox-local";
import { afterAll, beforeAll, expect, vi } from "vitest";
import { createVercelProvider } from "../vercel.ts";

const controlToken = "control";
const credentials = { teamId: "local", projectId: "local" };
const helperCredentials = { ...credentials, token: "helper" };
/** One for each provider, by which its faults are told apart. */
const unusedTokens = Array.from({ length: 2_000 }, () => `token-${randomUUID()}`);
let api: SandboxApi;

/** More often than the SDK retries. */
export const always = 100;
export const tags = { app: "catalogue", stage: "catalogue" };
export const timeoutMs = 600_000;
export const command = { cmd: "echo", args: ["said"], timeoutMs: 30_000, maxBytes: 100 };
/** A provider without faults. */
export const helper = createVercelProvider(helperCredentials);

/** Serves Vercel's API on loopback to all tests of a file, under the address of the real one. */
export function serveVercel(): void {
  let dataDir: string;
  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), "concierge-catalogue-"));
    api = await startSandboxApi({
      dataDir,
      controlToken,
      tokens: [helperCredentials.token, ...unusedTokens],
    });
    const { fetch } = globalThis;
    vi.stubGlobal("fetch", (input: string | URL, init?: RequestInit) =>
      fetch(String(input).replace("https://vercel.com", api.url), init),
    );
  });
  afterAll(async () => {
    vi.unstubAllGlobals();
    await api.close();
    await rm(dataDir, { recursive: true, force: true });
  });
}

/** A provider with faults of its own, which no other provider meets. */
export function open(timeLeftMs?: () => number) {
  const token = unusedTokens.pop() ?? "";
  return {
    provider: createVercelProvider({ ...credentials, token, timeLeftMs }),
    async fault(fault: object): Promise<void> {
      await control("/faults", "POST", { token, ...fault });
    },
  };
}

const letters = { refused: "R", throttled: "H", transient: "T", gone: "G", stopped: "S" } as const;

/** The letter of a failure in the tables. */
export function letterOf(error: unknown): string {
  if (!(error instanceof ProviderError)) throw error;
  return letters[error.kind];
}

export const aName = () => `box-${randomUUID()}`;

export const aRunDir = () => `/tmp/concierge/task_${randomUUID()}-1`;

export const aSandbox = () => helper.create({ name: aName(), tags, timeoutMs });

export async function aStopped(): Promise<LiveSandbox> {
  const sandbox = await aSandbox();
  await stop(sandbox);
  return sandbox;
}

export async function aSnapshot() {
  return { snapshotId: await helper.snapshot(await aSandbox(), timeoutMs) };
}

export async function aLaunch() {
  const sandbox = await aSandbox();
  const runDir = aRunDir();
  const state = { lastOutputAt: null, producedSeq: 0, ackedSeq: 0, activity: "none" };
  await helper.writeFiles(sandbox, [
    { path: `${runDir}/runner.mjs`, content: "setInterval(() => {}, 1000);" },
    { path: `${runDir}/state.json`, content: JSON.stringify(state) },
  ]);
  return { sandbox, runDir, commandId: await helper.launch(sandbox, runDir, {}) };
}

/** A launch whose launcher is dead, so that it cannot sweep. */
export async function aLaunchToSweep() {
  const launched = await aLaunch();
  const session = (await look(launched.sandbox)).currentSession();
  const launcher = await session.getCommand(launched.commandId);
  using logs = launcher.logs();
  for await (const _line of logs) break;
  await launcher.kill("SIGKILL");
  await launcher.wait();
  return launched;
}

export async function stop(sandbox: LiveSandbox): Promise<void> {
  await (await look(sandbox)).stop();
}

export async function setLatency(latency: object): Promise<void> {
  await control("/latency", "PUT", latency);
}

/** The number of requests per route. */
export async function countRequests(): Promise<unknown> {
  return ((await control("/stats", "GET")) as { routes: unknown }).routes;
}

async function look({ name }: LiveSandbox): Promise<Sandbox> {
  return await Sandbox.get({ ...helperCredentials, name, resume: false });
}

async function control(path: string, method: string, body?: object): Promise<unknown> {
  const response = await fetch(`${api.url}/_control${path}`, {
    method,
    headers: { authorization: `Bearer ${controlToken}` },
    ...(body && { body: JSON.stringify(body) }),
  });
  expect(response.status).toBe(200);
  return await response.json();
}
