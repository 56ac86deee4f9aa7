import type { AcquireDeps } from "../deps.ts";
import { ProviderError, SetupError } from "../errors.ts";
import { setupTimeoutMs } from "../limits.ts";
import type { LiveSandbox, SandboxRef } from "../ports.ts";
import { restingPolicy } from "../task/network.ts";
import type { Origin } from "../task/schema.ts";
import { fingerprintOf, usableSnapshot } from "./decide.ts";

/** Runs one step of creating a sandbox and reports it as progress. */
export type Step = <T>(step: string, detail: string, work: () => Promise<T>) => Promise<T>;

export const silently: Step = (_step, _detail, work) => work();

/** A new sandbox with everything installed: from the base snapshot, otherwise by installing into an empty one. */
export async function makeSandbox(
  deps: AcquireDeps,
  wanted: { name: string; tags: Record<string, string>; timeoutMs: number },
  step: Step,
): Promise<{ sandbox: LiveSandbox; origin: Origin }> {
  const { store, provider, clock, config } = deps;
  const policy = restingPolicy(config);
  const options = { ...wanted, ...(!policy.allow.includes("*") && { policy }) };
  const base = await store.getBaseSnapshot();
  const snapshotId = usableSnapshot(base, fingerprintOf(config), clock.now());
  if (snapshotId) {
    try {
      const create = () => provider.create({ ...options, snapshotId });
      const sandbox = await step("creating", `${options.name}, from the base snapshot.`, create);
      return { sandbox, origin: "snapshot" };
    } catch (error) {
      if (!(error instanceof ProviderError && error.kind === "gone")) throw error;
      await forgetBaseSnapshot(deps, snapshotId);
    }
  }
  const sandbox = await step("creating", options.name, () => provider.create(options));
  await setUp(deps, sandbox, step);
  return { sandbox, origin: "cold" };
}

/** Installs what every sandbox needs. Throws `SetupError` if the setup itself fails: it would fail again. */
export async function setUp(deps: AcquireDeps, sandbox: SandboxRef, step: Step): Promise<void> {
  const { provider, config, timeLeftMs } = deps;
  const { setup } = config;
  if (setup === undefined) return;
  const timeoutMs = Math.max(Math.min(setupTimeoutMs, timeLeftMs() - setupReserveMs), 1);
  const { exitCode, stdout, stderr } = await step("installing", "Installing into the new sandbox.", () =>
    provider.exec(sandbox, {
      cmd: "sh",
      args: ["-c", setup],
      timeoutMs,
      maxBytes: outputMaxBytes,
    }),
  );
  if (exitCode === 0) return;
  // A slow create left too little time. That says nothing about the setup.
  if (exitCode === null && timeoutMs < setupTimeoutMs)
    throw new ProviderError("transient", "Too little time was left for the setup of the sandbox.");
  const how = exitCode === null ? `took longer than ${setupTimeoutMs} ms` : `exited with ${exitCode}`;
  const output = `${stdout}${stderr}`.trim().slice(-outputShown);
  throw new SetupError(`The setup of the sandbox ${how}: ${output || "no output"}`);
}

/** Time to record the result and to take a snapshot. */
const setupReserveMs = 10_000;
const outputMaxBytes = 64 * 1024;
const outputShown = 2000;

/** The snapshot is missing: no sandbox is created from it again, and the reaper has another built. */
async function forgetBaseSnapshot({ store }: Pick<AcquireDeps, "store">, snapshotId: string): Promise<void> {
  const base = await store.getBaseSnapshot();
  if (base?.state !== "ready" || base.snapshotId !== snapshotId) return;
  const { version, fingerprint } = base;
  const detail = "The snapshot no longer exists.";
  await store.putBaseSnapshot({ state: "failed", version: version + 1, fingerprint, detail, at: 0 }, version);
}
