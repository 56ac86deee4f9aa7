import { ApiError } from "../http/errors.ts";
import { type Isolation, type Machine, MachineError } from "../isolation/machine.ts";
import type { Gateway } from "../network/gateway.ts";
import type { Network } from "../network/settings.ts";
import type { Latency, ResolvedOptions } from "../options.ts";
import type { LiveCommand } from "./commands.ts";
import type { SandboxRecord, SessionRecord } from "./records.ts";
import type { Store } from "./store.ts";

export interface RunningSession {
  machine: Machine;
  /** Undefined without isolation. */
  gateway?: Gateway | undefined;
  commands: Map<string, LiveCommand>;
  expiry: NodeJS.Timeout;
}

/** The state that all operations share. */
export interface World {
  options: ResolvedOptions;
  isolation: Isolation;
  etcDir: string;
  /** The filter for system calls. Undefined without isolation, and on architectures that have none. */
  seccomp?: string | undefined;
  /** Undefined without isolation: sandboxes then share the host's network. */
  network?: Network | undefined;
  /** The address of the API. */
  url: string;
  latency: Latency;
  store: Store;
  running: Map<string, RunningSession>;
  /** Serializes state changes of a sandbox: two resumes start one session, and a stop waits for a start. */
  exclusively<T>(sandboxId: string, change: () => Promise<T>): Promise<T>;
}

export function createWorld(world: Omit<World, "url" | "running" | "exclusively">): World {
  const tails = new Map<string, Promise<unknown>>();
  return {
    ...world,
    url: "",
    running: new Map(),
    async exclusively(sandboxId, change) {
      const before = tails.get(sandboxId) ?? Promise.resolve();
      const result = before.then(change, change);
      const tail = result.then(
        () => {},
        () => {},
      );
      tails.set(sandboxId, tail);
      try {
        return await result;
      } finally {
        if (tails.get(sandboxId) === tail) tails.delete(sandboxId);
      }
    },
  };
}

export function findSandbox({ store }: World, projectId: string, name: string): SandboxRecord | undefined {
  for (const sandbox of store.sandboxes.values()) {
    if (sandbox.name === name && sandbox.projectId === projectId) return sandbox;
  }
  return undefined;
}

export function sandboxNamed(world: World, projectId: string, name: string): SandboxRecord {
  const sandbox = findSandbox(world, projectId, name);
  if (!sandbox) throw new ApiError("not_found", `Sandbox "${name}" not found.`);
  return sandbox;
}

export function sessionById({ store }: World, id: string): SessionRecord {
  const session = store.sessions.get(id);
  if (!session) throw new ApiError("not_found", "Session not found.");
  return session;
}

export function currentSession(world: World, sandbox: SandboxRecord): SessionRecord {
  return sessionById(world, sandbox.currentSessionId);
}

/** The running session. Throws with the codes by which the SDK decides to resume. */
export function runningSession(world: World, id: string): RunningSession {
  const session = sessionById(world, id);
  switch (session.status) {
    case "running": {
      const running = world.running.get(id);
      if (running) return running;
      throw stopped();
    }
    case "pending":
      throw new ApiError("sandbox_pending", "The sandbox is not ready yet.");
    case "stopping":
      throw new ApiError("sandbox_stopping", "The sandbox is stopping.");
    case "snapshotting":
      throw new ApiError("sandbox_snapshotting", "The sandbox is being snapshotted.");
    case "stopped":
    case "aborted":
    case "failed":
      throw stopped();
  }
}

export function stopped(): ApiError {
  return new ApiError("sandbox_stopped", "Sandbox has stopped execution and is no longer available.");
}

/** The API error for a failed request to the machine. */
export function refusal(world: World, sessionId: string, error: unknown, target: string): unknown {
  if (!(error instanceof MachineError)) return error;
  switch (error.code) {
    case "EPIPE":
      return whyNotRunning(world, sessionId);
    case "ENOENT":
      return new ApiError("bad_request", `No such file or directory: ${target}`);
    default:
      return new ApiError("file_error", `${error.code}: ${error.message}`);
  }
}

function whyNotRunning(world: World, sessionId: string): unknown {
  try {
    runningSession(world, sessionId);
  } catch (error) {
    return error;
  }
  return stopped();
}
