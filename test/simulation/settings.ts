import { type Config, parseConfig } from "@concierge/core";
import { topology } from "../../infra/topology.ts";
import type { Role } from "./world.ts";

/** The configuration of a run. */
export function configOf(pool: Pool): Config {
  return parseConfig({
    CONCIERGE_STAGE: "simulation",
    CONCIERGE_DEFAULT_AGENT: "shell",
    SESSION_IDLE_TIMEOUT_MS: String(pool.idleMs),
    SANDBOX_MAX_LIFE_MS: String(pool.lifeMs),
    POOL_MAX_SANDBOXES: String(pool.max),
    POOL_WARM_TARGET: String(pool.warm),
    POOL_MAX_PER_USER: String(pool.perUser ?? pool.max),
    ...(pool.setup && { SANDBOX_SETUP: "install" }),
  });
}

export interface Pool {
  max: number;
  perUser: number | undefined;
  warm: number;
  /** How long idle sandboxes are kept, and how long one may live. */
  idleMs: number;
  lifeMs: number;
  /** Something is installed into each sandbox, so there is a base snapshot. */
  setup: boolean;
}

/** When an invocation dies, and how much of its time is reserved for writing results. */
export const functionMs: Record<Role, number> = {
  api: topology.functions.Api.timeoutMs,
  worker: topology.functions.Worker.timeoutMs,
  timer: topology.functions.Timer.timeoutMs,
  reaper: topology.functions.Reaper.timeoutMs,
};
export const reserveMs = 5_000;
/** How much provider time a request to the api may use. */
export const apiCallsMs = 25_000;
