import type { Config } from "./config.ts";
import type { FlagReader } from "./flags/index.ts";
import type {
  Clock,
  GitRemote,
  Ids,
  Metrics,
  Provider,
  Sessions,
  Store,
  Timers,
  Webhooks,
  WorkQueue,
} from "./ports.ts";
import type { Sealer } from "./seal.ts";
import type { Agent } from "./task/schema.ts";

/** What the verbs are given; each function's composition root makes it once. */
export interface Deps {
  config: Config;
  clock: Clock;
  ids: Ids;
  store: Store;
  work: WorkQueue;
  timers: Timers;
  flags: FlagReader;
  metrics: Metrics;
  /**
   * How much time is left for the work under way: the function that runs it writes the outcome after that, and is killed
   * soon after. A call to the provider or a git remote takes no longer. Never negative; without a limit it is infinite.
   */
  timeLeftMs(): number;
  /**
   * Runs work with less time than is left: its calls to the provider and to git remotes fail once it is over. Work that
   * does not call them is not ended.
   */
  limitTime<T>(ms: number, work: () => Promise<T>): Promise<T>;
}

/** What the verbs that handle secrets are given besides. */
export interface SealingDeps extends Deps {
  sealer: Sealer;
}

/** What the verbs that touch a sandbox are given besides. */
export interface SandboxDeps extends Deps {
  provider: Provider;
}

/** What is needed to give a session its sandbox and to take it away: a store, a provider, and what goes with them. */
export interface RoomDeps {
  config: Pick<
    Config,
    "stage" | "sessionIdleMs" | "poolMax" | "poolMaxPerUser" | "warmTarget" | "sandboxMaxMs" | "setup"
  >;
  clock: Clock;
  ids: Pick<Ids, "claim">;
  store: Store;
  provider: Provider;
  flags: FlagReader;
  metrics: Metrics;
  timeLeftMs: Deps["timeLeftMs"];
}

/** What the verbs that only ask for rooms are given besides. */
export interface SessionDeps extends Deps {
  sessions: Sessions;
}

/** What ends turns, whatever they are at. */
export interface EndingDeps extends SandboxDeps, SealingDeps {
  git: GitRemote;
}

/** What an agent needs of the world beside its program: hosts, variables, and secrets with the hosts they are for. */
export interface AgentAccess {
  hosts: readonly string[];
  env: Readonly<Record<string, string>>;
  secrets: readonly AgentSecret[];
  /** Variables it can not do without and that are not set. */
  missing: readonly string[];
}

export interface AgentSecret {
  /** The variable the agent reads it from. */
  name: string;
  value: string;
  host: string;
  /** The header it goes in, and what stands before it there. */
  header: string;
  scheme?: string | undefined;
}

/** What tells of their ends. */
export interface WebhookDeps extends SealingDeps {
  webhooks: Webhooks;
}

/** What begins them. */
export interface LaunchDeps extends SandboxDeps, SealingDeps, SessionDeps {
  /** The runner's program, as it is uploaded. */
  runner: string;
  agents: Readonly<Record<Agent, AgentAccess>>;
  /** Where runners reach the api. */
  callbackUrl: string;
  /** By which logs find what belongs together: the runner calls back with it. */
  requestId?: () => string | undefined;
}
