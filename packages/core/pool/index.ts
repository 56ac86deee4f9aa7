import type { SandboxDeps } from "../deps.ts";
import { app, sandboxMaxMs, warmAtOnce } from "../limits.ts";
import type { LiveSandbox } from "../ports.ts";
import { claimable, decideRefill, isSpent } from "./decide.ts";

/** Takes a warm sandbox for a session by one conditional write: nobody else can have it, now or later. */
export async function claimWarm(
  { store, clock, config }: SandboxDeps,
  session: { userId: string; sessionKey: string },
  untilAt: number,
): Promise<LiveSandbox | undefined> {
  if (config.warmTarget === 0) return undefined;
  for (const { name, createdAt, expiresAt, sessionId } of claimable(await store.listWarm(), untilAt)) {
    const { userId, sessionKey } = session;
    const claimedAt = clock.now();
    const claimed = { state: "claimed", name, createdAt, expiresAt, claimedAt, userId, sessionKey } as const;
    if (await store.changeWarm(name, "ready", claimed)) return { name, sessionId, expiresAt };
  }
  return undefined;
}

/** Makes what is missing, and lets go of what nobody can want any more. Tells how many were made. */
export async function refill(deps: SandboxDeps, room: number): Promise<number> {
  const { store, provider, clock, config } = deps;
  const now = clock.now();
  const warm = await store.listWarm();
  for (const sandbox of warm.filter((one) => isSpent(one, now))) {
    // A claimed one is its session's to release; here only the record goes.
    if (sandbox.state !== "claimed") await provider.remove(sandbox.name);
    await store.deleteWarm(sandbox.name, sandbox.state);
  }
  const missing = decideRefill(warm, { target: config.warmTarget, room, atMost: warmAtOnce }, now);
  await Promise.all(Array.from({ length: missing }, () => makeWarm(deps)));
  return missing;
}

/** Named in the table before it exists, as every other. */
async function makeWarm({ store, provider, clock, ids, config }: SandboxDeps): Promise<void> {
  const createdAt = clock.now();
  const name = `${app}-${config.stage}-warm-${ids.warm()}`;
  const made = { name, createdAt, expiresAt: createdAt + sandboxMaxMs };
  if (!(await store.createWarm({ state: "creating", ...made }))) return;
  const tags = { app, stage: config.stage, pool: "warm" };
  const { sessionId, expiresAt } = await provider.create({ name, tags, timeoutMs: sandboxMaxMs });
  await store.changeWarm(name, "creating", { state: "ready", ...made, sessionId, expiresAt });
}
