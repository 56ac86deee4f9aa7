import { cutTo } from "../bounds.ts";
import type { Deps, SandboxDeps } from "../deps.ts";
import { SetupError } from "../errors.ts";
import { app, baseSnapshotMs, errorDetailMaxBytes, longestCreateMs } from "../limits.ts";
import { takeSlot } from "../pool/slots.ts";
import { fingerprintOf, runtime, shouldBuild, viewBase } from "./decide.ts";
import { setUp, silently } from "./make.ts";
import type { Base, BaseView } from "./schema.ts";

export async function getBase({ store, config }: Deps): Promise<BaseView> {
  return viewBase(await store.getBase(), fingerprintOf(config));
}

/** Asks for the base to be built, whether it is stale or not. */
export async function requestBase(deps: Deps): Promise<BaseView> {
  const base = await deps.store.getBase();
  if (base?.state !== "building" || base.until <= deps.clock.now())
    await deps.work.send({ kind: "base", asked: true });
  return await getBase(deps);
}

/** The reaper's look: where there is something to install, it should be in a snapshot. */
export async function keepBaseFresh({ store, config, clock, work }: Deps): Promise<void> {
  if (config.setup === undefined) return;
  if (shouldBuild(await store.getBase(), fingerprintOf(config), clock.now()))
    await work.send({ kind: "base" });
}

/** Builds the base: in a sandbox that is named in the table before it exists, as every other, and gone afterwards. */
export async function buildBase(deps: SandboxDeps, { asked = false }: { asked?: boolean }): Promise<void> {
  const { store, clock, config } = deps;
  const seen = await store.getBase();
  const fingerprint = fingerprintOf(config);
  const isBuilding = seen?.state === "building" && seen.until > clock.now();
  if (isBuilding || !(asked || shouldBuild(seen, fingerprint, clock.now()))) return;

  const version = (seen?.version ?? 0) + 1;
  const name = `${app}-${config.stage}-base-${version}`;
  const previous = seen?.state === "ready" ? madeOf(seen) : seen?.previous;
  const common = { version, fingerprint, ...(previous && { previous }) };
  const until = clock.now() + longestCreateMs;
  if (!(await store.putBase({ state: "building", ...common, name, until }, version - 1))) return;

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
    const isOurs = await store.putBase(made, version);
    const unused = isOurs ? previous?.snapshotId : snapshotId;
    if (unused) await deps.provider.deleteSnapshot(unused);
  } catch (error) {
    const detail = cutTo(errorDetailMaxBytes, error instanceof Error ? error.message : "unknown");
    // What the provider could not do now it may do in a minute; what the setup does it would do again.
    const at = error instanceof SetupError ? clock.now() : 0;
    await store.putBase({ state: "failed", ...common, version: version + 1, detail, at }, version);
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

function madeOf({ fingerprint, snapshotId, expiresAt }: Extract<Base, { state: "ready" }>) {
  return { fingerprint, snapshotId, expiresAt };
}
