import type { Config } from "./config.ts";
import type { Clock, Ids, Provider, Store, WorkQueue } from "./ports.ts";
import type { Sealer } from "./seal.ts";

/** What the verbs are given; each function's composition root makes it once. */
export interface Deps {
  config: Config;
  clock: Clock;
  ids: Ids;
  store: Store;
  work: WorkQueue;
}

/** What the verbs that handle secrets are given besides. */
export interface SealingDeps extends Deps {
  sealer: Sealer;
}

/** What the verbs that touch a sandbox are given besides. */
export interface SandboxDeps extends SealingDeps {
  provider: Provider;
  /** The runner's program, as it is uploaded. */
  runner: string;
  /** Where runners reach the api. */
  callbackUrl: string;
}
