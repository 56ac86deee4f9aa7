import { cutTo } from "../bounds.ts";
import { takeSlot } from "../capacity/slots.ts";
import type { Deps, SandboxDeps } from "../deps.ts";
import { SetupError } from "../errors.ts";
import { app, baseSnapshotMs, errorDetailMaxBytes, longestCreateMs } from "../limits.ts";
import { fingerprintOf, runtime, shouldBuild, viewBaseSnapshot } from "./decide.ts";
import { setUp, silently } from "./make.ts";
import type { BaseSnapshot, BaseSnapshotView } from "./schema.ts";

export async function getBaseSnapshot({ store, config }: Deps): Promise<BaseSnapshotView> {
  return viewBaseSnapshot(await store.getBaseSnapshot(), fingerprintOf(config));
}

/** Asks a worker to build the base snapshot, even if it is not stale. */
export async function requestBaseSnapshot(deps: Deps): Promise<BaseSnapshotView> {
  const base = await deps.store.getBaseSnapshot();
  if (base?.state !== "building" || base.until <= deps.clock.now())
    await deps.work.send({ kind: "base", asked: true });
  return await getBaseSnapshot(deps);
}

/** Called by the reaper: if there is something to install, it should be in a snapshot. */
export async function keepBaseSnapshotFresh({ store, config, clock, work }: Deps): Promise<void> {
  if (config.setup === undefined) return;
  if (shouldBuild(await store.getBaseSnapshot(), fingerprintOf(config), clock.now()))
    await work.send({ kind: "base" });
}

/**
 * Builds the base snapshot in its own sandbox, which the table names before it exists and which is removed afterwards.
 */
export async function buildBaseSnapshot(
  deps: SandboxDeps,
  { asked = false }: { asked?: boolean },
): Promise<void> {
  const { store, clock, config } = deps;
  const seen = await store.getBaseSnapshot();
  const fingerprint = fingerprintOf(config);
  const isBuilding = seen?.state === "building" && seen.until > clock.now();
  if (isBuilding || !(asked || shouldBuild(seen, fingerprint, clock.now()))) return;

  const version = (seen?.version ?? 0) + 1;
  const name = `${app}-${config.stage}-base-${version}`;
  const previous = seen?.state === "ready" ? madeOf(seen) : seen?.previous;
  const common = { version, fingerprint, ...(previous && { previous }) };
  const until = clock.now() + longestCreateMs;
  if (!(await store.putBaseSnapshot({ state: "building", ...common, name, until }, version - 1))) return;

  try {
    const snapshotId = await buildIn(deps, name);
    const builtAt = clock.now();
    const expiresAt = builtAt + baseSnapshotMs;
    const made = {
      state: "ready",
      version: version + 1,
      fingerprint,
      snapshotId,
      runtime,
      builtAt,
      expiresAt,
    } as const;
    const isOurs = await store.putBaseSnapshot(made, version);
    const unused = isOurs ? previous?.snapshotId : snapshotId;
    if (unused) await deps.provider.deleteSnapshot(unused);
  } catch (error) {
    const detail = cutTo(errorDetailMaxBytes, error instanceof Error ? error.message : "unknown");
    // A provider failure may pass in a minute. A failing setup would fail again.
    const at = error instanceof SetupError ? clock.now() : 0;
    await store.putBaseSnapshot({ state: "failed", ...common, version: version + 1, detail, at }, version);
    if (!(error instanceof SetupError)) throw error;
  }
}

async function buildIn(deps: SandboxDeps, name: string): Promise<string> {
  const { provider, store, config } = deps;
  await takeSlot(deps, { name }, { pool: "base" });
  try {
    const tags = { app, stage: config.stage, pool: "base" };
    const sandbox = await provider.create({ name, tags, timeoutMs: longestCreateMs });
    await setUp(deps, sandbox, silently);
    return await provider.snapshot(sandbox, baseSnapshotMs);
  } finally {
    await provider.remove(name, { keepSnapshots: true });
    await store.deleteSlot(name);
  }
}

function madeOf({ fingerprint, snapshotId, expiresAt }: Extract<BaseSnapshot, { state: "ready" }>) {
  return { fingerprint, snapshotId, expiresAt };
}
