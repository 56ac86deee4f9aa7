import type { Config } from "./config.ts";
import type { FlagReader } from "./flags/flags.ts";
import type {
  Clock,
  GitRemote,
  Ids,
  Metrics,
  Provider,
  Store,
  Timers,
  Webhooks,
  WorkQueue,
} from "./ports.ts";
import type { Sealer } from "./seal.ts";
import type { Agent } from "./task/schema.ts";

/** What every verb gets. Each function composes it once. */
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
   * The time left for the current work. Its function writes the outcome afterwards and is killed soon after. No call to
   * the provider or a git remote takes longer. Never negative; infinite without a limit.
   */
  timeLeftMs(): number;
  /**
   * Runs work with less time than is left: its calls to the provider and git remotes fail once the time is over. Other
   * work is not interrupted.
   */
  limitTime<T>(ms: number, work: () => Promise<T>): Promise<T>;
}

/** For verbs that handle secrets. */
export interface SealingDeps extends Deps {
  sealer: Sealer;
}

/** For verbs that use a sandbox. */
export interface SandboxDeps extends Deps {
  provider: Provider;
}

/** For giving a session its sandbox and taking it away. */
export interface AcquireDeps {
  config: Pick<
    Config,
    | "stage"
    | "sessionIdleMs"
    | "poolMax"
    | "poolMaxPerUser"
    | "warmTarget"
    | "sandboxMaxMs"
    | "setup"
    | "sandboxHosts"
  >;
  clock: Clock;
  ids: Pick<Ids, "claim">;
  store: Store;
  provider: Provider;
  flags: FlagReader;
  metrics: Metrics;
  timeLeftMs: Deps["timeLeftMs"];
}

/** For verbs that end turns. */
export interface EndingDeps extends SandboxDeps, SealingDeps {
  git: GitRemote;
}

/** What an agent needs besides its program: hosts, variables, and secrets with their hosts. */
export interface AgentAccess {
  hosts: readonly string[];
  env: Readonly<Record<string, string>>;
  secrets: readonly AgentSecret[];
  /** Required variables that are not set. */
  missing: readonly string[];
}

export interface AgentSecret {
  /** The variable the agent reads it from. */
  name: string;
  value: string;
  host: string;
  /** The start of the paths that it is sent to. */
  path: string;
  /** The header that carries it, and the scheme before the value. */
  header: string;
  scheme?: string | undefined;
}

/** For delivering webhooks. */
export interface WebhookDeps extends SealingDeps {
  webhooks: Webhooks;
}

/** For verbs that launch turns. */
export interface LaunchDeps extends SandboxDeps, SealingDeps {
  /** The runner's program, as it is uploaded. */
  runner: string;
  agents: Readonly<Record<Agent, AgentAccess>>;
  /** Where runners reach the api. */
  callbackUrl: string;
  /** Connects log lines; the runner sends it back with its posts. */
  requestId?: () => string | undefined;
  /** The W3C trace context of the launch. The runner sends it back, so that its posts are in the same trace. */
  traceparent?: () => string | undefined;
}
