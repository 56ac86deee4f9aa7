import type { Config } from "./config.ts";
import type { FlagReader } from "./flags/index.ts";
import type { Clock, GitRemote, Ids, Metrics, Provider, Store, Timers, WorkQueue } from "./ports.ts";
import type { Sealer } from "./seal.ts";

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
}

/** What the verbs that handle secrets are given besides. */
export interface SealingDeps extends Deps {
  sealer: Sealer;
}

/** What the verbs that touch a sandbox are given besides. */
export interface SandboxDeps extends Deps {
  provider: Provider;
}

/** What ends turns, whatever they are at. */
export interface EndingDeps extends SandboxDeps, SealingDeps {
  git: GitRemote;
}

/** What begins them. */
export interface LaunchDeps extends SandboxDeps, SealingDeps {
  /** The runner's program, as it is uploaded. */
  runner: string;
  /** Where runners reach the api. */
  callbackUrl: string;
}
