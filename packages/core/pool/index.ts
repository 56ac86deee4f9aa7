import { fingerprintOf, usableSnapshot } from "../base/decide.ts";
import { makeSandbox, silently } from "../base/make.ts";
import type { Deps, RoomDeps, SandboxDeps } from "../deps.ts";
import { NoRoomError } from "../errors.ts";
import { app, warmAtOnce } from "../limits.ts";
import type { LiveSandbox } from "../ports.ts";
import { countOf } from "./capacity.ts";
import { claimable, decideRefill, isSpent } from "./decide.ts";
import type { Slot } from "./schema.ts";
import { takeSlot } from "./slots.ts";

/** Takes a warm sandbox for a session by one conditional write: nobody else can have it, now or later. */
export async function claimWarm(
  { store, clock, config }: Pick<RoomDeps, "store" | "clock" | "config">,
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
 * Asks workers for the warm sandboxes that are missing, each by a message of its own: making one takes longer than a pass
 * of the reaper may. With something to install, only once there is a base snapshot. Returns how many were asked for.
 */
export async function requestWarm(deps: Deps, slots: readonly Slot[]): Promise<number> {
  const missing = await missingWarm(deps, slots);
  for (let asked = 0; asked < missing; asked++) await deps.work.send({ kind: "warm" });
  return missing;
}

/** Lets go of warm sandboxes that no session can want any more. */
export async function removeSpentWarm({ store, provider, clock }: SandboxDeps): Promise<void> {
  for (const sandbox of (await store.listWarm()).filter((one) => isSpent(one, clock.now()))) {
    // The record goes first: from then on no session can claim it. A removal that is slow, or made again, would otherwise
    // take the sandbox from a session that claimed it meanwhile. Where the rest fails, the audit of its slot does it.
    if (!(await store.deleteWarm(sandbox.name, sandbox.state))) continue;
    await provider.remove(sandbox.name);
    await store.deleteSlot(sandbox.name);
  }
}

/** Makes one warm sandbox, if one is still missing. Named in the table before it exists, as every other. */
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
    if (error instanceof NoRoomError) return;
    throw error;
  }
  const tags = { app, stage: config.stage, pool: "warm" };
  const { sandbox } = await makeSandbox(deps, { name, tags, timeoutMs: config.sandboxMaxMs }, silently);
  // The first command in a sandbox is its slowest, and one that can run none must not be given out.
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
    usableSnapshot(await store.getBase(), fingerprintOf(config), now) !== undefined;
  if (!isReady) return 0;
  const room = config.poolMax - countOf(slots);
  return decideRefill(await store.listWarm(), { target: config.warmTarget, room, atMost: warmAtOnce }, now);
}
