import { fingerprintOf, usableSnapshot } from "../base-snapshot/decide.ts";
import { makeSandbox, silently } from "../base-snapshot/make.ts";
import type { AcquireDeps, Deps, SandboxDeps } from "../deps.ts";
import { CapacityError } from "../errors.ts";
import { app, warmAtOnce } from "../limits.ts";
import type { LiveSandbox } from "../ports.ts";
import { countOf } from "./capacity.ts";
import { claimable, decideRefill, isSpent } from "./decide.ts";
import type { Slot } from "./schema.ts";
import { takeSlot } from "./slots.ts";

/** Claims a warm sandbox for a session with one conditional write: no other session can get it, now or later. */
export async function claimWarm(
  { store, clock, config }: Pick<AcquireDeps, "store" | "clock" | "config">,
  session: { userId: string; sessionKey: string },
  untilAt: number,
): Promise<LiveSandbox | undefined> {
  if (config.warmTarget === 0) return undefined;
  for (const warm of claimable(await store.listWarm(), untilAt)) {
    const { state: _, sessionId, ...made } = warm;
    const { name, createdAt, expiresAt } = made;
    const claimed = { state: "claimed", ...made, claimedAt: clock.now(), ...session } as const;
    if (await store.changeWarm(name, "ready", claimed))
      return { name, sessionId, startedAt: createdAt, expiresAt };
  }
  return undefined;
}

/**
 * Asks workers for the missing warm sandboxes, one message each, because creating one takes longer than a reaper pass.
 * If there is a setup, only once there is a base snapshot. Returns how many were requested.
 */
export async function requestWarm(deps: Deps, slots: readonly Slot[]): Promise<number> {
  const missing = await missingWarm(deps, slots);
  for (let asked = 0; asked < missing; asked++) await deps.work.send({ kind: "warm" });
  return missing;
}

/** Removes warm sandboxes that no session can use any more. */
export async function removeSpentWarm({ store, provider, clock }: SandboxDeps): Promise<void> {
  for (const sandbox of (await store.listWarm()).filter((one) => isSpent(one, clock.now()))) {
    // A slow or repeated removal could hit a session that claimed the sandbox meanwhile. Delete the record first: from
    // then on no session can claim it. If the rest fails, the audit of its slot removes the sandbox.
    if (!(await store.deleteWarm(sandbox.name, sandbox.state))) continue;
    await provider.remove(sandbox.name);
    await store.deleteSlot(sandbox.name);
  }
}

/** Creates one warm sandbox if one is still missing. The table names it before it exists. */
export async function makeWarm(deps: SandboxDeps): Promise<void> {
  const { store, clock, ids, config, provider } = deps;
  if ((await missingWarm(deps, await store.listSlots())) === 0) return;
  const createdAt = clock.now();
  const name = `${app}-${config.stage}-warm-${ids.warm()}`;
  const made = { name, createdAt, expiresAt: createdAt + config.sandboxMaxMs };
  if (!(await store.createWarm({ state: "creating", ...made }))) return;
  try {
    await takeSlot(deps, { name }, { pool: "warm" });
  } catch (error) {
    await store.deleteWarm(name, "creating");
    if (error instanceof CapacityError) return;
    throw error;
  }
  const tags = { app, stage: config.stage, pool: "warm" };
  const { sandbox } = await makeSandbox(deps, { name, tags, timeoutMs: config.sandboxMaxMs }, silently);
  // The first command in a sandbox is the slowest, and a sandbox that cannot run one must not be handed out.
  await provider.exec(sandbox, readiness);
  const { sessionId, expiresAt } = sandbox;
  await store.changeWarm(name, "creating", { state: "ready", ...made, sessionId, expiresAt });
}

const readiness = { cmd: "true", args: [], timeoutMs: 10_000, maxBytes: 0 };

async function missingWarm({ store, clock, config }: Deps, slots: readonly Slot[]): Promise<number> {
  if (config.warmTarget === 0) return 0;
  const now = clock.now();
  const isReady =
    config.setup === undefined ||
    usableSnapshot(await store.getBaseSnapshot(), fingerprintOf(config), now) !== undefined;
  if (!isReady) return 0;
  const room = config.poolMax - countOf(slots);
  return decideRefill(await store.listWarm(), { target: config.warmTarget, room, atMost: warmAtOnce }, now);
}
