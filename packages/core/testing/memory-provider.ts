import { ProviderError } from "../errors.ts";
import type {
  Clock,
  Execution,
  ExecutionResult,
  LiveSandbox,
  NetworkPolicy,
  Provider,
  RunnerState,
} from "../ports.ts";

/** A launched runner with everything it started: alive until it is killed, exits, or its sandbox is removed. */
export interface MemoryProcess {
  sandbox: string;
  runDir: string;
  env: Readonly<Record<string, string>>;
  alive: boolean;
  /** The runner itself was killed; what it started lives on. */
  hasLostRunner?: boolean;
  state: RunnerState | undefined;
}

interface MemorySandbox extends LiveSandbox {
  state: "running" | "stopped";
  createdAt: number;
  timeoutMs: number;
  tags: Readonly<Record<string, string>>;
  files: Map<string, string>;
  /** By run directory: a launch, or the bar that a sweep put in its place. */
  launches: Map<string, MemoryProcess | "barred">;
  /** By command id: what each launch started. A second launch started nothing. */
  commands: Map<string, MemoryProcess>;
  /** The turn whose files were uploaded last. */
  current: string | undefined;
  policy?: NetworkPolicy;
}

export interface MemoryWorld {
  /** Every running sandbox. */
  sandboxes(): readonly { name: string; createdAt: number; tags: Readonly<Record<string, string>> }[];
  /** Whether a sandbox of that name exists, running or stopped. */
  exists(name: string): boolean;
  /** Every process that was ever launched. */
  processes: readonly MemoryProcess[];
  created: readonly string[];
  /** Every snapshot that exists. */
  snapshots: ReadonlyMap<string, ReadonlyMap<string, string>>;
  policy(name: string): NetworkPolicy | undefined;
  files(name: string): ReadonlyMap<string, string> | undefined;
  /** Removes the sandbox as if the provider had ended it. */
  lose(name: string): void;
  /** Stops the sandbox as if its time were over; it can be resumed. */
  stop(name: string): void;
  loseSnapshot(id: string): void;
}

/** A provider in memory, for tests and simulations. It passes the same contract suite as the real one. */
export function createMemoryProvider({
  clock,
  onLaunch = () => {},
  brokers = false,
  onExec = () => ({ exitCode: 0, stdout: "", stderr: "", truncated: false }),
}: {
  clock: Clock;
  onLaunch?: (process: MemoryProcess) => void;
  /** Whether it can keep secrets out of its sandboxes. */
  brokers?: boolean;
  onExec?: (sandbox: string, execution: Execution) => ExecutionResult | Promise<ExecutionResult>;
}): { provider: Provider; world: MemoryWorld } {
  const sandboxes = new Map<string, MemorySandbox>();
  const snapshots = new Map<string, Map<string, string>>();
  const processes: MemoryProcess[] = [];
  const created: string[] = [];
  let sessions = 0;

  const kill = (name: string): void => {
    for (const process of processes) if (process.sandbox === name) process.alive = false;
  };
  const drop = (name: string): void => {
    kill(name);
    sandboxes.delete(name);
  };
  const stop = (sandbox: MemorySandbox): void => {
    kill(sandbox.name);
    sandbox.state = "stopped";
  };
  const known = (name: string): MemorySandbox | undefined => {
    const sandbox = sandboxes.get(name);
    if (sandbox?.state === "running" && sandbox.expiresAt <= clock.now()) stop(sandbox);
    return sandbox;
  };
  const running = (name: string): MemorySandbox | undefined => {
    const sandbox = known(name);
    return sandbox?.state === "running" ? sandbox : undefined;
  };
  const begin = (timeoutMs: number) => {
    const startedAt = clock.now();
    sessions += 1;
    return {
      state: "running" as const,
      sessionId: `session ${sessions}`,
      startedAt,
      expiresAt: startedAt + timeoutMs,
      launches: new Map(),
      commands: new Map(),
      current: undefined,
    };
  };
  const inside = ({ name, sessionId }: { name: string; sessionId: string }): MemorySandbox => {
    const sandbox = running(name);
    if (sandbox?.sessionId === sessionId) return sandbox;
    if (known(name)) throw new ProviderError("stopped", `The session of the sandbox ${name} has ended.`);
    throw new ProviderError("gone", `The sandbox ${name} is gone.`);
  };

  const provider: Provider = {
    async create({ name, tags, timeoutMs, snapshotId }) {
      const taken = known(name);
      const isOurs = taken && Object.entries(tags).every(([tag, value]) => taken.tags[tag] === value);
      if (isOurs && taken.state === "running") return live(taken);
      if (taken) throw new ProviderError("refused", `There is a sandbox ${name} already.`);
      const files = snapshotId === undefined ? new Map<string, string>() : snapshots.get(snapshotId);
      if (!files) throw new ProviderError("gone", `There is no snapshot ${snapshotId}.`);
      const createdAt = clock.now();
      const sandbox = { ...begin(timeoutMs), name, createdAt, timeoutMs, tags, files: new Map(files) };
      sandboxes.set(name, sandbox);
      created.push(name);
      return live(sandbox);
    },

    async probe(name) {
      const sandbox = known(name);
      if (sandbox?.state === "running") return { health: "healthy", sandbox: live(sandbox) };
      return { health: sandbox ? "resumable" : "gone" };
    },

    async resume(name) {
      const sandbox = known(name);
      if (!sandbox) throw new ProviderError("gone", `The sandbox ${name} is gone.`);
      if (sandbox.state === "stopped") Object.assign(sandbox, begin(sandbox.timeoutMs));
      return live(sandbox);
    },

    async snapshot(ref) {
      const sandbox = inside(ref);
      const id = `snapshot ${snapshots.size + 1} of ${sandbox.name}`;
      snapshots.set(id, new Map(sandbox.files));
      stop(sandbox);
      return id;
    },

    async deleteSnapshot(id) {
      snapshots.delete(id);
    },

    async exec(ref, execution) {
      return await onExec(inside(ref).name, execution);
    },

    async list({ stage }) {
      const all = [...sandboxes.keys()].flatMap((name) => known(name) ?? []);
      const items = all
        .filter(({ tags }) => tags.stage === stage)
        .map(({ name, createdAt, tags, state }) => ({
          name,
          createdAt,
          tags,
          isRunning: state === "running",
        }));
      return { items, next: undefined };
    },

    async writeFiles(ref, files) {
      const sandbox = inside(ref);
      for (const { path, content } of files) sandbox.files.set(path, String(content));
      const current = files.find(({ path }) => path.endsWith("/current"));
      if (current) sandbox.current = String(current.content).trim();
    },

    async guardNetwork(ref, policy) {
      inside(ref).policy = policy;
      return brokers ? "guarded" : "open";
    },

    async launch(ref, runDir, env) {
      const { name, launches, commands } = inside(ref);
      if (launches.has(runDir)) return "a launch that came second";
      const commandId = `command ${commands.size + 1} of ${ref.sessionId}`;
      const process: MemoryProcess = { sandbox: name, runDir, env, alive: true, state: undefined };
      launches.set(runDir, process);
      commands.set(commandId, process);
      processes.push(process);
      onLaunch(process);
      return commandId;
    },

    async sweep(ref, runDir, { evenIfSuperseded = false } = {}) {
      const { name, launches, current } = inside(ref);
      if (!evenIfSuperseded && current && !runDir.endsWith(`/${current}`)) return "superseded";
      const launched = launches.get(runDir);
      if (launched === undefined) launches.set(runDir, "barred");
      if (launched === undefined || launched === "barred") return "clean";
      // Kills by start time, like the real sweep: everything launched since is killed too.
      for (const later of processes.slice(processes.indexOf(launched))) {
        if (later.sandbox === name) later.alive = false;
      }
      return "clean";
    },

    async ask(ref, runDir, commandId) {
      const { launches, commands } = inside(ref);
      const launched = launches.get(runDir);
      const state = launched === undefined || launched === "barred" ? undefined : launched.state;
      const process = commandId === undefined ? undefined : commands.get(commandId);
      if (!process) return { launch: "unknown", state };
      return { launch: process.alive && !process.hasLostRunner ? "running" : "exited", state };
    },

    async extend(ref, byMs) {
      inside(ref).expiresAt += byMs;
    },

    async remove(name) {
      drop(name);
    },
  };

  return {
    provider,
    world: {
      sandboxes: () => [...sandboxes.values()].filter(({ state }) => state === "running"),
      exists: (name) => sandboxes.has(name),
      processes,
      created,
      snapshots,
      policy: (name) => sandboxes.get(name)?.policy,
      files: (name) => sandboxes.get(name)?.files,
      lose: drop,
      stop: (name) => {
        const sandbox = known(name);
        if (sandbox) stop(sandbox);
      },
      loseSnapshot: (id) => void snapshots.delete(id),
    },
  };
}

function live({ name, sessionId, startedAt, expiresAt }: MemorySandbox): LiveSandbox {
  return { name, sessionId, startedAt, expiresAt };
}
