import { createHash } from "node:crypto";
import { baseRenewMs } from "../limits.ts";
import type { BaseSnapshot, BaseSnapshotView } from "./schema.ts";

/** The runtime of every new sandbox. */
export const runtime = "node24";

/** A failed build is not retried for this long, unless an admin asks. */
const failedRestMs = 60 * 60_000;

/** Identifies what a base snapshot is built from. */
export function fingerprintOf({ setup }: { setup: string | undefined }): string {
  return createHash("sha256")
    .update(`${runtime}\0${setup ?? ""}`)
    .digest("hex")
    .slice(0, 16);
}

/** The snapshot that new sandboxes can be created from now. */
export function usableSnapshot(
  base: BaseSnapshot | undefined,
  fingerprint: string,
  now: number,
): string | undefined {
  const made = base?.state === "ready" ? base : base?.previous;
  return made && made.fingerprint === fingerprint && made.expiresAt > now ? made.snapshotId : undefined;
}

export function shouldBuild(base: BaseSnapshot | undefined, fingerprint: string, now: number): boolean {
  if (!base) return true;
  switch (base.state) {
    case "building":
      return base.until <= now;
    case "failed":
      return base.fingerprint !== fingerprint || now - base.at >= failedRestMs;
    case "ready":
      return base.fingerprint !== fingerprint || base.expiresAt - now <= baseRenewMs;
  }
}

export function viewBaseSnapshot(base: BaseSnapshot | undefined, fingerprint: string): BaseSnapshotView {
  const nothing = { snapshotId: null, runtime: null, builtAt: null, expiresAt: null, detail: null };
  if (!base) return { state: "none", ...nothing };
  switch (base.state) {
    case "building":
      return { state: "building", ...nothing };
    case "failed":
      return { state: "failed", ...nothing, detail: base.detail };
    case "ready":
      return {
        state: base.fingerprint === fingerprint ? "ready" : "stale",
        snapshotId: base.snapshotId,
        runtime: base.runtime,
        builtAt: new Date(base.builtAt).toISOString(),
        expiresAt: new Date(base.expiresAt).toISOString(),
        detail: null,
      };
  }
}
