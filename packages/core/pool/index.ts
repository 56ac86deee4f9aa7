import { makeSandbox, silently } from "../base/make.ts";
import type { RoomDeps, SandboxDeps } from "../deps.ts";
import { NoRoomError } from "../errors.ts";
import { app, warmAtOnce } from "../limits.ts";
import type { LiveSandbox } from "../ports.ts";
import { claimable, decideRefill, isSpent } from "./decide.ts";
import { confirmSlot, takeSlot } from "./slots.ts";

/** Takes a warm sandbox for a session by one conditional write: nobody else can have it, now or later. */
export async function claimWarm(
  { store, clock, config }: Pick<RoomDeps, "store" | "clock" | "config">,
  session: { userId: string; sessionKey: string },
  untilAt: number,
): Promise<{ sandbox: LiveSandbox; slot: number | undefined } | undefined> {
  if (config.warmTarget === 0) return undefined;
  for (const warm of claimable(await store.listWarm(), untilAt)) {
    const { state: _, sessionId, ...made } = warm;
    const { name, createdAt, expiresAt, slot } = made;
    const claimed = { state: "claimed", ...made, claimedAt: clock.now(), ...session } as const;
    if (await store.changeWarm(name, "ready", claimed))
      return { sandbox: { name, sessionId, startedAt: createdAt, expiresAt }, slot };
  }
  return undefined;
}

/** Makes what is missing, and lets go of what nobody can want any more. Tells how many were made. */
export async function refill(deps: SandboxDeps): Promise<number> {
  const { store, provider, clock, config } = deps;
  const now = clock.now();
  const warm = await store.listWarm();
  for (const sandbox of warm.filter((one) => isSpent(one, now))) {
    await provider.remove(sandbox.name);
    await store.deleteWarm(sandbox.name, sandbox.state);
  }
  if (config.warmTarget === 0) return 0;
  const room = config.poolMax - (await store.listSlots()).length;
  const missing = decideRefill(warm, { target: config.warmTarget, room, atMost: warmAtOnce }, now);
  const made = await Promise.all(Array.from({ length: missing }, () => makeWarm(deps)));
  return made.filter(Boolean).length;
}

/** Named in the table before it exists, as every other. */
async function makeWarm(deps: SandboxDeps): Promise<boolean> {
  const { store, clock, ids, config } = deps;
  const createdAt = clock.now();
  const name = `${app}-${config.stage}-warm-${ids.warm()}`;
  const taken = await tookSlot(deps, name);
  if (taken === undefined) return false;
  const named = { name, createdAt, expiresAt: createdAt + config.sandboxMaxMs, slot: taken };
  if (!(await store.createWarm({ state: "creating", ...named }))) return false;
  const slot = await confirmSlot(deps, taken, name, { pool: "warm" });
  if (slot === undefined) return false;
  const made = { ...named, slot };
  const tags = { app, stage: config.stage, pool: "warm" };
  const timeoutMs = config.sandboxMaxMs;
  const { sandbox } = await makeSandbox(deps, { name, tags, timeoutMs }, silently);
  // The first command in a sandbox is its slowest, and one that can run none is not to be given to anyone.
  await deps.provider.exec(sandbox, readiness);
  const { sessionId, expiresAt } = sandbox;
  return await store.changeWarm(name, "creating", { state: "ready", ...made, sessionId, expiresAt });
}

const readiness = { cmd: "true", args: [], timeoutMs: 10_000, maxBytes: 0 };

async function tookSlot(deps: SandboxDeps, name: string): Promise<number | undefined> {
  try {
    return (await takeSlot(deps, name, { pool: "warm" })).number;
  } catch (error) {
    if (error instanceof NoRoomError) return undefined;
    throw error;
  }
}
