import * as z from "zod/mini";
import type { Deps } from "../deps.ts";
import { longestCreateMs } from "../limits.ts";
import { inParallel } from "../parallel.ts";
import { whoHolds } from "../session/release.ts";
import { dayOf, reuseRateOf } from "../usage/decide.ts";
import { countOf } from "./capacity.ts";

export const poolSchema = z
  .lazy(() =>
    z.object({
      /** Sandboxes that count against the cap. */
      total: z.int(),
      /** Sessions' sandboxes that are ready, with or without a running turn. */
      ready: z.int(),
      leased: z.int(),
      idle: z.int(),
      /** Created ahead of demand, not claimed yet. */
      warm: z.int(),
      creating: z.int(),
      max: z.int(),
      /** How long the longest idle sandbox has been idle. */
      oldestIdleMs: z.nullable(z.int()),
      /** The share of turns that reused their session's sandbox, today and yesterday. */
      reuseRate: z.nullable(z.number()),
    }),
  )
  .register(z.globalRegistry, { id: "Pool" });

export type Pool = z.infer<typeof poolSchema>;

const dayMs = 24 * 60 * 60_000;
const idleMax = 2000;
const always = () => true;
const readsAtOnce = 8;

/** Pool figures without user names. Few requests: only sandboxes being created are read one by one. */
export async function poolStats({ store, clock, config }: Deps): Promise<Pool> {
  const now = clock.now();
  const [slots, warm, idle, today, yesterday] = await Promise.all([
    store.listSlots(),
    store.listWarm(),
    store.listIdleSessions(idleMax),
    store.listUsage(dayOf(now)),
    store.listUsage(dayOf(now - dayMs)),
  ]);
  const sessions = countOf(slots.filter(({ userId }) => userId !== undefined));
  const young = slots.filter(({ at, userId }) => userId !== undefined && now - at < longestCreateMs);
  let making = 0;
  await inParallel(young, readsAtOnce, always, async ({ userId = "", sessionKey = "", name }) => {
    const sandbox = (await store.getSession(userId, sessionKey))?.sandbox;
    if (sandbox?.name === name && sandbox.state === "creating") making += 1;
  });
  const [oldest] = idle;
  const longest = oldest && (await store.getSession(oldest.userId, oldest.key));
  const ready = Math.max(sessions - making, 0);
  const idleCount = Math.min(idle.length, ready);
  return {
    total: countOf(slots),
    ready,
    leased: ready - idleCount,
    idle: idleCount,
    warm: warm.filter(({ state }) => state === "ready").length,
    creating: making + warm.filter(({ state }) => state === "creating").length,
    max: config.poolMax,
    oldestIdleMs: longest ? Math.max(now - (await whoHolds(store, longest, now)).idleSince, 0) : null,
    reuseRate: reuseRateOf([...today, ...yesterday]),
  };
}
