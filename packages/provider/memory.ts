import {
  type Clock,
  type LiveSandbox,
  type Provider,
  ProviderError,
  type RunnerState,
} from "@concierge/core";

/** One launched runner, with whatever it started: alive until it is killed, ends by itself, or its sandbox goes. */
export interface MemoryProcess {
  sandbox: string;
  runDir: string;
  env: Readonly<Record<string, string>>;
  alive: boolean;
  state: RunnerState | undefined;
}

interface MemorySandbox extends LiveSandbox {
  createdAt: number;
  tags: Readonly<Record<string, string>>;
  /** By run directory: a launch, or the bar that a sweep put in its place. */
  launches: Map<string, MemoryProcess | "barred">;
  /** The turn whose files were put there last. */
  current: string | undefined;
}

export interface MemoryWorld {
  /** Every sandbox that exists. */
  sandboxes(): readonly { name: string; createdAt: number; tags: Readonly<Record<string, string>> }[];
  /** Every process that was ever launched. */
  processes: readonly MemoryProcess[];
  created: readonly string[];
  /** The sandbox goes as if the provider had ended it. */
  lose(name: string): void;
}

/** The provider without sandboxes, for simulations: held to the same suite as the real one. */
export function createMemoryProvider({
  clock,
  onLaunch = () => {},
}: {
  clock: Clock;
  onLaunch?: (process: MemoryProcess) => void;
}): { provider: Provider; world: MemoryWorld } {
  const sandboxes = new Map<string, MemorySandbox>();
  const processes: MemoryProcess[] = [];
  const created: string[] = [];

  const drop = (name: string): void => {
    for (const process of processes) if (process.sandbox === name) process.alive = false;
    sandboxes.delete(name);
  };
  const running = (name: string): MemorySandbox | undefined => {
    const sandbox = sandboxes.get(name);
    if (sandbox && sandbox.expiresAt <= clock.now()) drop(name);
    return sandboxes.get(name);
  };
  const inside = ({ name, sessionId }: { name: string; sessionId: string }): MemorySandbox => {
    const sandbox = running(name);
    if (sandbox?.sessionId !== sessionId) throw new ProviderError("gone", `The sandbox ${name} is gone.`);
    return sandbox;
  };

  const provider: Provider = {
    async create({ name, tags, timeoutMs }) {
      if (running(name)) throw new ProviderError("refused", `There is a sandbox ${name} already.`);
      const createdAt = clock.now();
      const sandbox = {
        name,
        sessionId: `session of ${name}`,
        createdAt,
        expiresAt: createdAt + timeoutMs,
        tags,
        launches: new Map(),
        current: undefined,
      };
      sandboxes.set(name, sandbox);
      created.push(name);
      return live(sandbox);
    },

    async find(name) {
      const sandbox = running(name);
      return sandbox && live(sandbox);
    },

    async list({ stage }) {
      const all = [...sandboxes.keys()].flatMap((name) => running(name) ?? []);
      const items = all
        .filter(({ tags }) => tags.stage === stage)
        .map(({ name, createdAt, tags }) => ({ name, createdAt, tags }));
      return { items, next: undefined };
    },

    async writeFiles(ref, files) {
      const current = files.find(({ path }) => path.endsWith("/current"));
      if (current) inside(ref).current = String(current.content).trim();
      else inside(ref);
    },

    async launch(ref, { args, env }) {
      const { name, launches } = inside(ref);
      const runDir = (args[0] ?? "").replace(/^\.\.\/\.\./, "").replace(/\/[^/]*$/, "");
      if (launches.has(runDir)) return "a launch that came second";
      const process: MemoryProcess = { sandbox: name, runDir, env, alive: true, state: undefined };
      launches.set(runDir, process);
      processes.push(process);
      onLaunch(process);
      return `command ${processes.length}`;
    },

    async sweep(ref, runDir, { evenIfSuperseded } = { evenIfSuperseded: false }) {
      const { name, launches, current } = inside(ref);
      if (!evenIfSuperseded && current && !runDir.endsWith(`/${current}`)) return "superseded";
      const launched = launches.get(runDir);
      if (launched === undefined) launches.set(runDir, "barred");
      if (launched === undefined || launched === "barred") return "clean";
      // By the time they began, as the real one: whatever was launched since is killed with it.
      for (const later of processes.slice(processes.indexOf(launched))) {
        if (later.sandbox === name) later.alive = false;
      }
      return "clean";
    },

    async ask(ref, runDir) {
      const launched = inside(ref).launches.get(runDir);
      return launched === undefined || launched === "barred" ? undefined : launched.state;
    },

    async extend(ref, byMs) {
      inside(ref).expiresAt += byMs;
    },

    async remove(name) {
      drop(name);
    },
  };

  return { provider, world: { sandboxes: () => [...sandboxes.values()], processes, created, lose: drop } };
}

function live({ name, sessionId, expiresAt }: MemorySandbox): LiveSandbox {
  return { name, sessionId, expiresAt };
}
