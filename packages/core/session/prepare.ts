import type { AcquireDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import type { SessionName } from "../ports.ts";
import { addMeasures, addUsage } from "../usage/usage.ts";
import { type AcquiredSandbox, acquireSandbox, type SandboxRequest } from "./acquire.ts";
import { healthOf } from "./health.ts";
import { release, whoHolds } from "./release.ts";

export interface PrepareOptions extends Partial<Pick<SandboxRequest, "until" | "progress" | "session">> {
  /** Checked after each read of the session; stops the work when it returns false. */
  isWanted?: () => Promise<boolean>;
}

/** Gives a session its sandbox outside a turn: ahead of one, or for a command. */
export async function prepareSandbox(
  deps: AcquireDeps,
  name: SessionName,
  options: PrepareOptions = {},
): Promise<AcquiredSandbox> {
  const found = await acquireSandbox(deps, {
    until: deps.clock.now(),
    progress: async () => {},
    isWanted: async () => true,
    ...options,
    ...name,
    by: deps.ids.claim(),
    holder: undefined,
  });
  if (typeof found === "string") throw new AppError("internal", "The sandbox is no longer wanted.");
  return found;
}

/** A turn counts the sandbox it gets. This counts one that was created outside a turn. */
export async function countPrepared(
  deps: AcquireDeps,
  userId: string,
  { origin, steps }: Pick<AcquiredSandbox, "origin" | "steps">,
): Promise<void> {
  if (origin === "reused" || origin === "resumed") return;
  const initMs = Object.values(steps).reduce((total, ms) => total + ms, 0);
  const samples = await addUsage(deps, userId, { creations: 1, initMs_prepared: initMs });
  await addMeasures(deps, samples, userId);
}

/** The health of the session's sandbox; `gone` if it has none. */
export async function checkHealth(deps: AcquireDeps, { userId, sessionKey }: SessionName) {
  const sandbox = (await deps.store.getSession(userId, sessionKey))?.sandbox;
  return sandbox?.state === "ready" ? await healthOf(deps, sandbox.name) : "gone";
}

/** Gives up the session's sandbox. False if a turn holds the session. */
export async function invalidateSession(
  deps: AcquireDeps,
  { userId, sessionKey }: SessionName,
): Promise<boolean> {
  const { store, clock } = deps;
  for (;;) {
    const session = await store.getSession(userId, sessionKey);
    if (!session?.sandbox) return true;
    const { held } = await whoHolds(store, session, clock.now());
    if (held) return false;
    await release(deps, { userId, sessionKey, epoch: session.epoch });
  }
}
