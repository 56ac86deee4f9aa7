import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { limits } from "@concierge/core";
import { release } from "@concierge/core/session/release";
import { physicalName } from "@concierge/dev";
import { createVercelProvider } from "@concierge/provider-vercel";
import { createDynamoStore } from "@concierge/store";
import { type SandboxApi, type SandboxApiOptions, startSandboxApi } from "vercel-sandbox-local";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Engine, startDynalite } from "../../test/testing/dynamodb.ts";
import { SandboxSessionManager, type SandboxSessionManagerConfig } from "./index.ts";
import type { GuestOrder } from "./testing/guest.ts";

const program = fileURLToPath(new URL("./testing/guest.ts", import.meta.url));
const tableName = physicalName("Table");
const controlToken = "control";
const alice = { userId: "alice", sessionKey: "default" };

let engine: Engine;
let api: SandboxApi;
let dataDir: string;
const guests: Guest[] = [];

beforeEach(async () => {
  engine = await startDynalite();
  dataDir = await mkdtemp(join(tmpdir(), "concierge-sessions-"));
});
afterEach(async () => {
  await Promise.all(guests.splice(0).map(end));
  await api.close();
  await engine.close();
  await rm(dataDir, { recursive: true, force: true });
});

const openSandboxes = async (options: Partial<SandboxApiOptions>): Promise<void> => {
  api = await startSandboxApi({ dataDir, controlToken, ...options });
};

function clockAhead(byMs: number) {
  return { now: () => Date.now() + byMs, sleep: (ms: number) => delay(ms) };
}

function parts(clock = clockAhead(0)) {
  const baseUrl = api.url;
  return {
    clock,
    store: createDynamoStore({ client: engine.client, tableName, clock }),
    provider: createVercelProvider({ token: api.token, teamId: "local", projectId: "local", baseUrl }),
  };
}

const managerOf = (over: Partial<SandboxSessionManagerConfig> = {}) =>
  new SandboxSessionManager({ ...parts(), ...over });

interface Guest {
  child: ChildProcessByStdio<Writable, Readable, null>;
  /** Everything is loaded, and it waits for the signal. */
  ready: Promise<unknown>;
  go(): void;
  got: Promise<{ name: string; sessionId: string; origin: string }>;
}

function startGuest(): Guest {
  const order: GuestOrder = {
    dynamodb: engine.endpoint,
    tableName,
    sandboxes: api.url,
    token: api.token,
    ...alice,
  };
  const child = spawn(process.execPath, [program, JSON.stringify(order)], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: join(dataDir, "cache") },
  });
  const lines = createInterface(child.stdout);
  const ready = once(lines, "line");
  const got = ready.then(async () => {
    const ended = once(child, "exit").then(([code]) => Promise.reject(new Error(`it exited with ${code}`)));
    const [line] = (await Promise.race([once(lines, "line"), ended])) as [string];
    return JSON.parse(line) as Awaited<Guest["got"]>;
  });
  got.catch(() => {});
  const guest = { child, ready, got, go: () => void child.stdin.write("go\n") };
  guests.push(guest);
  return guest;
}

async function end({ child }: Guest): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

/** A first run leaves its compile cache to the others. */
async function compile(): Promise<void> {
  const { child } = startGuest();
  child.stdin.end();
  await once(child, "exit");
}

interface Stats {
  routes: Record<string, { requests: number; statuses: Record<string, number> }>;
  running: number;
}

async function stats(): Promise<Stats> {
  const headers = { authorization: `Bearer ${controlToken}` };
  return (await (await fetch(`${api.url}/_control/stats`, { headers })).json()) as Stats;
}

const creates = async () => (await stats()).routes.createSandbox?.requests ?? 0;

describe("fifty processes", () => {
  it("that want one session at once get one sandbox, created once", async () => {
    await openSandboxes({ latency: { createMs: 500 } });
    await compile();
    const all = Array.from({ length: 50 }, startGuest);
    await Promise.all(all.map(({ ready }) => ready));
    for (const guest of all) guest.go();
    const got = await Promise.all(all.map((guest) => guest.got));

    expect(new Set(got.map(({ name, sessionId }) => `${name} ${sessionId}`)).size).toBe(1);
    expect(got.filter(({ origin }) => origin === "cold")).toHaveLength(1);
    expect((await stats()).routes.createSandbox).toEqual({ requests: 1, statuses: { 200: 1 } });
    expect((await parts().store.listSlots()).map(({ name }) => name)).toEqual([got[0]?.name]);
  }, 120_000);
});

describe("a process that is killed in the middle of its create", () => {
  it("is waited for no longer than a create may take, and leaves nothing behind", async () => {
    await openSandboxes({ latency: { createMs: 3000 } });
    const victim = startGuest();
    await victim.ready;
    victim.go();
    await expect.poll(creates, { timeout: 20_000 }).toBe(1);
    await end(victim);
    const { store, provider } = parts();
    expect((await store.getSession("alice", "default"))?.sandbox).toMatchObject({ state: "creating" });

    // By this clock no create can still be under way.
    const { clock, store: laterStore } = parts(clockAhead(limits.longestCreateMs + 1000));
    const later = managerOf({ clock, store: laterStore });
    await expect
      .poll(async () => await later.getOrCreateSession(alice).catch(() => undefined), { timeout: 20_000 })
      .toBeDefined();
    const session = await store.getSession("alice", "default");
    expect(session?.sandbox?.state).toBe("ready");
    expect(await provider.probe(session?.sandbox?.name ?? "")).toMatchObject({ health: "healthy" });

    const metrics = { count: () => {} };
    await release({ store: laterStore, provider, clock, metrics }, { ...alice, epoch: session?.epoch ?? 0 });
    // As the reaper does: sandboxes that may exist under a name that was given up.
    for (const { name } of await store.listSlots()) {
      await provider.remove(name);
      await store.deleteSlot(name);
    }
    expect((await provider.list({ stage: "dev" })).items).toEqual([]);
    expect((await stats()).running).toBe(0);
    expect(await store.listSlots()).toEqual([]);
  }, 60_000);
});

describe("two hundred users", () => {
  it("share twenty sandboxes: each gets one, and there are never more than twenty", async () => {
    await openSandboxes({ limits: { maxSandboxes: 20 } });
    const managers = Array.from({ length: 4 }, () => managerOf({ poolMax: 20 }));
    const users = Array.from({ length: 200 }, (_, i) => `user-${i}`);
    const names = new Set<string>();
    const failures: unknown[] = [];
    const come = async () => {
      for (let userId = users.shift(); userId !== undefined; userId = users.shift()) {
        const manager = managers[users.length % managers.length] ?? managerOf();
        try {
          const { sandbox } = await manager.getOrCreateSession({ userId, sessionKey: "default" });
          names.add(sandbox.name);
        } catch (error) {
          failures.push(error);
          // Running ones finish; no new ones start.
          users.length = 0;
        }
      }
    };
    await Promise.all(Array.from({ length: 20 }, come));

    expect(failures).toEqual([]);
    expect(names.size).toBe(200);
    const { routes, running } = await stats();
    // More than twenty would have been a 429, which the SDK retries.
    expect(routes.createSandbox).toEqual({ requests: 200, statuses: { 200: 200 } });
    expect(running).toBe(20);
    expect(await parts().store.listSlots()).toHaveLength(20);
  }, 120_000);
});
