import * as z from "zod/mini";
import { bounded, providerId, wordOf } from "../bounds.ts";
import { errorDetailMaxBytes } from "../limits.ts";

const time = z.int().check(z.nonnegative());

const common = {
  version: z.int().check(z.positive()),
  /** What it is built from. A different fingerprint makes it stale. */
  fingerprint: wordOf(64),
  /** Used until this one is ready. */
  previous: z.optional(z.object({ fingerprint: wordOf(64), snapshotId: providerId(), expiresAt: time })),
};

/** The snapshot that new sandboxes are created from. */
export const baseSnapshotSchema = z.lazy(() =>
  z.discriminatedUnion("state", [
    z.object({ state: z.literal("building"), ...common, name: providerId(), until: time }),
    z.object({
      state: z.literal("ready"),
      ...common,
      snapshotId: providerId(),
      runtime: wordOf(32),
      builtAt: time,
      expiresAt: time,
    }),
    z.object({
      state: z.literal("failed"),
      ...common,
      detail: bounded(z.string(), { maxBytes: errorDetailMaxBytes }),
      at: time,
    }),
  ]),
);

export type BaseSnapshot = z.infer<typeof baseSnapshotSchema>;

export const baseSnapshotViewSchema = z
  .lazy(() =>
    z.object({
      state: z.enum(["none", "building", "ready", "stale", "failed"]),
      snapshotId: z.nullable(z.string()),
      runtime: z.nullable(z.string()),
      builtAt: z.nullable(z.iso.datetime()),
      expiresAt: z.nullable(z.iso.datetime()),
      detail: z.nullable(z.string()),
    }),
  )
  .register(z.globalRegistry, { id: "BaseSnapshot" });

export type BaseSnapshotView = z.infer<typeof baseSnapshotViewSchema>;
