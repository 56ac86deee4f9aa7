import type { RoomDeps } from "../deps.ts";
import { ProviderError, SetupError } from "../errors.ts";
import { setupTimeoutMs } from "../limits.ts";
import type { LiveSandbox, SandboxRef } from "../ports.ts";
import type { Origin } from "../task/schema.ts";
import { fingerprintOf, usableSnapshot } from "./decide.ts";

/** Does a step of making a sandbox, and tells of it as it goes. */
export type Step = <T>(step: string, detail: string, work: () => Promise<T>) => Promise<T>;

export const silently: Step = (_step, _detail, work) => work();

/** A new sandbox with everything in it: from the base snapshot where there is one, else installed into an empty one. */
export async function makeSandbox(
  deps: RoomDeps,
  options: { name: string; tags: Record<string, string>; timeoutMs: number },
  step: Step,
): Promise<{ sandbox: LiveSandbox; origin: Origin }> {
  const { store, provider, clock, config } = deps;
  const base = await store.getBase();
  const snapshotId = usableSnapshot(base, fingerprintOf(config), clock.now());
  if (snapshotId) {
    try {
      const create = () => provider.create({ ...options, snapshotId });
      const sandbox = await step("creating", `${options.name}, from the base snapshot.`, create);
      return { sandbox, origin: "snapshot" };
    } catch (error) {
      if (!(error instanceof ProviderError && error.kind === "gone")) throw error;
      await forgetBase(deps, snapshotId);
    }
  }
  const sandbox = await step("creating", options.name, () => provider.create(options));
  await setUp(deps, sandbox, step);
  return { sandbox, origin: "cold" };
}

/** Installs what every sandbox is to have. That it fails is no fault of the provider's: it would fail again. */
export async function setUp(deps: RoomDeps, sandbox: SandboxRef, step: Step): Promise<void> {
  const { provider, config, timeLeftMs } = deps;
  const { setup } = config;
  if (setup === undefined) return;
  const timeoutMs = Math.max(Math.min(setupTimeoutMs, timeLeftMs() - setupReserveMs), 1);
  const { exitCode, stdout, stderr } = await step("installing", "What every sandbox is to have.", () =>
    provider.exec(sandbox, {
      cmd: "sh",
      args: ["-c", setup],
      timeoutMs,
      maxBytes: outputMaxBytes,
    }),
  );
  if (exitCode === 0) return;
  // It had less time than it may take, because the create before it was slow: that says nothing of the setup.
  if (exitCode === null && timeoutMs < setupTimeoutMs)
    throw new ProviderError("transient", "There was too little time left to install into the sandbox.");
  const how = exitCode === null ? `took longer than ${setupTimeoutMs} ms` : `exited with ${exitCode}`;
  const said = `${stdout}${stderr}`.trim().slice(-outputShown);
  throw new SetupError(`The setup of the sandbox ${how}: ${said || "it said nothing"}`);
}

/** Time to write down that it is done, and to take a snapshot of it. */
const setupReserveMs = 10_000;
const outputMaxBytes = 64 * 1024;
const outputShown = 2000;

/** The snapshot is not there: no create is made from it again, and the reaper has another built. */
async function forgetBase({ store }: Pick<RoomDeps, "store">, snapshotId: string): Promise<void> {
  const base = await store.getBase();
  if (base?.state !== "ready" || base.snapshotId !== snapshotId) return;
  const { version, fingerprint } = base;
  const detail = "The snapshot is gone.";
  await store.putBase({ state: "failed", version: version + 1, fingerprint, detail, at: 0 }, version);
}
