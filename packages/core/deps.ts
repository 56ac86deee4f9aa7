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
  WorkQueue,
} from "./ports.ts";
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
}

/** What the verbs that only ask for rooms are given besides. */
export interface SessionDeps extends Deps {
  sessions: Sessions;
}

/** What ends turns, whatever they are at. */
export interface EndingDeps extends SandboxDeps, SealingDeps {
  git: GitRemote;
}

/** What begins them. */
export interface LaunchDeps extends SandboxDeps, SealingDeps, SessionDeps {
  /** The runner's program, as it is uploaded. */
  runner: string;
  /** Where runners reach the api. */
  callbackUrl: string;
}
