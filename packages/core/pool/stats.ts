import * as z from "zod/mini";
import { dayOf, reuseRateOf } from "../cost/decide.ts";
import type { Deps } from "../deps.ts";
import { inParallel } from "../parallel.ts";
import { whoHolds } from "../session/release.ts";

export const poolSchema = z
  .lazy(() =>
    z.object({
      /** Sandboxes that count against the cap. */
      total: z.int(),
      /** Of sessions and ready to be used, with or without a turn in them. */
      ready: z.int(),
      leased: z.int(),
      idle: z.int(),
      /** Made ahead, for nobody yet. */
      warm: z.int(),
      creating: z.int(),
      max: z.int(),
      /** How long the longest unused one has not been used. */
      oldestIdleMs: z.nullable(z.int()),
      /** Turns that went on in the room they had, of all turns of today and yesterday. */
      reuseRate: z.nullable(z.number()),
    }),
  )
  .register(z.globalRegistry, { id: "Pool" });

export type Pool = z.infer<typeof poolSchema>;

const dayMs = 24 * 60 * 60_000;
const readsAtOnce = 8;

/** The pool in numbers, nobody's name among them. */
export async function poolStats({ store, clock, config }: Deps): Promise<Pool> {
  const now = clock.now();
  const [slots, warm, sessions, today, yesterday] = await Promise.all([
    store.listSlots(),
    store.listWarm(),
    store.listHoldingSessions(),
    store.listUsage(dayOf(now)),
    store.listUsage(dayOf(now - dayMs)),
  ]);
  const ready = sessions.filter(({ sandbox }) => sandbox?.state === "ready");
  const idleMs: number[] = [];
  await inParallel(
    ready,
    readsAtOnce,
    () => true,
    async (session) => {
      const { held, idleSince } = await whoHolds(store, session, now);
      if (!held) idleMs.push(Math.max(now - idleSince, 0));
    },
  );
  const creating = [...sessions.map(({ sandbox }) => sandbox), ...warm].filter(
    (one) => one?.state === "creating",
  );
  return {
    total: slots.length,
    ready: ready.length,
    leased: ready.length - idleMs.length,
    idle: idleMs.length,
    warm: warm.filter(({ state }) => state === "ready").length,
    creating: creating.length,
    max: config.poolMax,
    oldestIdleMs: idleMs.length === 0 ? null : Math.max(...idleMs),
    reuseRate: reuseRateOf([...today, ...yesterday]),
  };
}
