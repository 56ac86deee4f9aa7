import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../http/errors.ts";
import { type Machine, startMachine } from "../isolation/machine.ts";
import { sweep } from "../isolation/plain.ts";
import { type Gateway, type GatewayPorts, openGateway } from "../network/gateway.ts";
import {
  isAlive,
  memoryMbPerVcpu,
  newId,
  type SandboxConfig,
  type SandboxRecord,
  type SessionRecord,
  type SnapshotRecord,
} from "./records.ts";
import {
  adoptSnapshot,
  deleteIncompleteSnapshots,
  keepFiles,
  restoreFiles,
  type Snapshotting,
  usableSnapshot,
} from "./snapshots.ts";
import { installSource, type Source } from "./source.ts";
import {
  currentSession,
  findSandbox,
  type RunningSession,
  sessionById,
  stopped,
  type World,
} from "./world.ts";

export interface CreateRequest {
  projectId: string;
  name: string;
  config: SandboxConfig;
  source?: Source | undefined;
}

const maxTimerMs = 2 ** 31 - 1;

export async function createSandbox(world: World, request: CreateRequest): Promise<SandboxRecord> {
  const { projectId, name, config, source } = request;
  if (findSandbox(world, projectId, name)) {
    throw new ApiError(
      "bad_request",
      `Sandbox "${name}" already exists. Use GET /sandboxes/${name} to resume it.`,
    );
  }
  assertCapacity(world);
  const snapshotId = source?.type === "snapshot" ? usableSnapshot(world, source.snapshotId).id : undefined;
  const now = Date.now();
  const sandbox: SandboxRecord = {
    ...config,
    id: newId("sandbox"),
    name,
    projectId,
    createdAt: now,
    updatedAt: now,
    statusUpdatedAt: now,
    currentSessionId: "",
    ...(snapshotId && { currentSnapshotId: snapshotId }),
  };
  // Reserve the name and the slot before the first await; otherwise concurrent creates could share them.
  const session = openSession(world, sandbox, snapshotId);
  return world.exclusively(sandbox.id, async () => {
    try {
      await startSession(world, session, async (running) => {
        if (source && source.type !== "snapshot") await installSource(world, running, source);
      });
    } catch (error) {
      world.store.removeSandbox(sandbox);
      throw error;
    }
    return sandbox;
  });
}

/** Starts the sandbox again from its last snapshot. False if it was already running. */
export async function resumeSandbox(world: World, sandbox: SandboxRecord): Promise<boolean> {
  return world.exclusively(sandbox.id, async () => {
    if (!world.store.sandboxes.has(sandbox.id)) throw new ApiError("not_found", "Sandbox not found.");
    if (currentSession(world, sandbox).status === "running") return false;
    if (!sandbox.persistent) throw stopped();
    assertCapacity(world);
    if (!sandbox.currentSnapshotId) throw new ApiError("snapshot_not_found", "The sandbox has no snapshot.");
    const { id } = usableSnapshot(world, sandbox.currentSnapshotId);
    await startSession(world, openSession(world, sandbox, id));
    return true;
  });
}

/** Ends the session, with a snapshot if the sandbox is persistent. Does nothing if it has already ended. */
export async function stopSession(world: World, sessionId: string): Promise<SessionRecord> {
  const session = sessionById(world, sessionId);
  await world.exclusively(session.sandboxId, () => endSession(world, session, { as: "stopped" }));
  return session;
}

/** Ends the session with a snapshot, even if the sandbox is not persistent. Returns the snapshot's id. */
export async function snapshotSession(
  world: World,
  sessionId: string,
  snapshotting: Snapshotting,
): Promise<string> {
  const session = sessionById(world, sessionId);
  return world.exclusively(session.sandboxId, async () => {
    if (session.status !== "running") throw stopped();
    const snapshot = await endSession(world, session, { as: "stopped", snapshotting });
    if (!snapshot) throw new ApiError("not_found", "Sandbox not found.");
    return snapshot.id;
  });
}

export async function deleteSandbox(world: World, sandbox: SandboxRecord): Promise<void> {
  await world.exclusively(sandbox.id, async () => {
    if (!world.store.sandboxes.has(sandbox.id)) throw new ApiError("not_found", "Sandbox not found.");
    await endSession(world, currentSession(world, sandbox), { as: "stopped", discardFiles: true });
    world.store.removeSandbox(sandbox);
  });
}

export function extendTimeout(world: World, session: SessionRecord, durationMs: number): void {
  const { maxTimeoutMs } = world.options.limits;
  if (session.timeoutMs + durationMs > maxTimeoutMs) {
    throw new ApiError("bad_request", `The timeout can be at most ${maxTimeoutMs} ms.`);
  }
  const running = world.running.get(session.id);
  if (!running) throw stopped();
  touch(world, session, { timeoutMs: session.timeoutMs + durationMs });
  clearTimeout(running.expiry);
  running.expiry = expireLater(world, session);
}

/** Cleans up after a restart. Processes died with the previous API; files are still there. */
export async function recover(world: World): Promise<void> {
  deleteIncompleteSnapshots(world);
  for (const session of world.store.sessions.values()) {
    if (!isAlive(session)) continue;
    if (world.isolation === "none") await sweep(session.id);
    const sandbox = world.store.sandboxes.get(session.sandboxId);
    const isUnfinished = session.status === "pending";
    if (sandbox && isUnfinished && sessionsOf(world, sandbox).length === 1) {
      // The create was interrupted, so no caller knows this sandbox.
      world.store.removeSandbox(sandbox);
      continue;
    }
    const isSnapshotted = sandbox && adoptSnapshot(world, sandbox, session);
    await endSession(world, session, { as: "stopped", discardFiles: isUnfinished || isSnapshotted === true });
  }
}

/** Ends all sessions, including those that are starting or stopping. */
export async function stopAll(world: World): Promise<void> {
  const alive = [...world.store.sessions.values()].filter(isAlive);
  await Promise.all(alive.map(({ id }) => stopSession(world, id)));
}

function sessionsOf({ store }: World, sandbox: SandboxRecord): SessionRecord[] {
  return [...store.sessions.values()].filter((session) => session.sandboxId === sandbox.id);
}

function openSession(
  world: World,
  sandbox: SandboxRecord,
  sourceSnapshotId: string | undefined,
): SessionRecord {
  const now = Date.now();
  const session: SessionRecord = {
    id: newId("session"),
    sandboxId: sandbox.id,
    status: "pending",
    vcpus: sandbox.vcpus,
    region: sandbox.region,
    runtime: sandbox.runtime,
    timeoutMs: sandbox.timeoutMs,
    networkPolicy: sandbox.networkPolicy,
    sourceSnapshotId,
    requestedAt: now,
    createdAt: now,
    updatedAt: now,
  };
  world.store.saveSession(session);
  sandbox.currentSessionId = session.id;
  sandbox.statusUpdatedAt = now;
  world.store.saveSandbox(sandbox);
  return session;
}

async function startSession(
  world: World,
  session: SessionRecord,
  prepare: (running: RunningSession) => Promise<void> = async () => {},
): Promise<void> {
  const { store } = world;
  const root = store.sessionRoot(session.id);
  try {
    if (world.latency.createMs > 0) await sleep(world.latency.createMs);
    if (session.sourceSnapshotId) await restoreFiles(world, session.sourceSnapshotId, root);
    for (const directory of ["vercel/sandbox", "home/vercel-sandbox", "tmp"]) {
      mkdirSync(path.join(root, directory), { recursive: true });
    }
    chmodSync(path.join(root, "tmp"), 0o1777);
    const { machine, gateway } = await openMachine(world, session, root);
    touch(world, session, { startedAt: Date.now() });
    const running = {
      machine,
      gateway,
      commands: new Map(),
      expiry: expireLater(world, session),
    };
    world.running.set(session.id, running);
    machine.exited
      .then(() => abandon(world, session))
      .catch((error: unknown) => world.options.onLog(`session ${session.id}: ${String(error)}`));
    await prepare(running);
    touch(world, session, { status: "running" });
  } catch (error) {
    await endSession(world, session, { as: "failed", discardFiles: true });
    throw error;
  }
}

async function openMachine(
  world: World,
  session: SessionRecord,
  root: string,
): Promise<{ machine: Machine; gateway: Gateway | undefined }> {
  const { isolation, network, etcDir: etc, seccomp, options } = world;
  const memoryBytes = options.limits.process.memoryBytes ?? session.vcpus * memoryMbPerVcpu * 1024 * 1024;
  const limits = { ...options.limits.process, memoryBytes };
  const common = { isolation, sessionId: session.id, root, etc, seccomp, limits };
  if (!network) return { machine: await startMachine(common), gateway: undefined };
  const rules = world.store.sandboxes.get(session.sandboxId)?.networkRules ?? { mode: "allow-all" as const };
  const directory = path.join(network.directory, randomBytes(6).toString("hex"));
  let ports = (): GatewayPorts => ({ loopback: network.hostPorts(), remote: [] });
  const [gateway, machine] = await Promise.allSettled([
    openGateway(directory, network.settings, rules),
    startMachine({ ...common, network: { directory, ports: () => ports() } }),
  ]);
  if (gateway.status === "fulfilled" && machine.status === "fulfilled") {
    const { close, ports: named } = gateway.value;
    ports = () => ({ ...named(), loopback: [...network.hostPorts(), ...named().loopback] });
    void machine.value.exited.then(close);
    return { machine: machine.value, gateway: gateway.value };
  }
  if (gateway.status === "fulfilled") gateway.value.close();
  if (machine.status === "fulfilled") await machine.value.kill();
  throw gateway.status === "rejected" ? gateway.reason : machine.status === "rejected" && machine.reason;
}

interface Ending {
  as: "stopped" | "aborted" | "failed";
  snapshotting?: Snapshotting;
  discardFiles?: boolean;
}

async function endSession(
  world: World,
  session: SessionRecord,
  ending: Ending,
): Promise<SnapshotRecord | undefined> {
  if (!isAlive(session)) return undefined;
  const { store } = world;
  const sandbox = store.sandboxes.get(session.sandboxId);
  const running = world.running.get(session.id);
  const keeps = sandbox && !ending.discardFiles && (ending.snapshotting || sandbox.persistent);
  touch(world, session, {
    status: ending.snapshotting ? "snapshotting" : "stopping",
    requestedStopAt: Date.now(),
  });
  if (running) {
    clearTimeout(running.expiry);
    await running.machine.kill();
    for (const live of running.commands.values()) live.cut();
    world.running.delete(session.id);
    if (world.latency.stopMs > 0) await sleep(world.latency.stopMs);
  }
  const snapshot = keeps ? await keepFiles(world, sandbox, session, ending.snapshotting) : undefined;
  store.discard(store.sessionRoot(session.id));
  const now = Date.now();
  touch(world, session, {
    status: ending.as,
    stoppedAt: now,
    ...(ending.as === "aborted" && { abortedAt: now }),
    ...(snapshot && { snapshottedAt: now }),
  });
  return snapshot;
}

/** The machine ended unexpectedly: its init was killed, or the host ran out of memory. */
async function abandon(world: World, session: SessionRecord): Promise<void> {
  await world.exclusively(session.sandboxId, () => endSession(world, session, { as: "aborted" }));
}

function expireLater(world: World, session: SessionRecord): NodeJS.Timeout {
  const at = (session.startedAt ?? session.createdAt) + session.timeoutMs;
  const timer = setTimeout(
    () => {
      world.options.onLog(`session ${session.id} reached its timeout`);
      stopSession(world, session.id).catch((error: unknown) => world.options.onLog(String(error)));
    },
    Math.min(Math.max(0, at - Date.now()), maxTimerMs),
  );
  timer.unref();
  return timer;
}

function assertCapacity({ store, options: { limits } }: World): void {
  let alive = 0;
  for (const session of store.sessions.values()) if (isAlive(session)) alive += 1;
  if (alive < limits.maxSandboxes) return;
  throw new ApiError("rate_limited", `At most ${limits.maxSandboxes} sandboxes can run at once.`, {
    "retry-after": String(limits.retryAfterSeconds),
  });
}

function touch(world: World, session: SessionRecord, change: Partial<SessionRecord>): void {
  const now = Date.now();
  Object.assign(session, change, { updatedAt: now });
  world.store.saveSession(session);
  const sandbox = world.store.sandboxes.get(session.sandboxId);
  if (!sandbox || !change.status) return;
  sandbox.statusUpdatedAt = now;
  world.store.saveSandbox(sandbox);
}
