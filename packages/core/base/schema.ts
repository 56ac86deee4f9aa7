import * as z from "zod";

const time = z.int().nonnegative();

const common = {
  version: z.int().positive(),
  /** Of what it is made from: another one makes it stale. */
  fingerprint: z.string(),
  /** The one that is used until this one is ready. */
  previous: z.object({ fingerprint: z.string(), snapshotId: z.string(), expiresAt: time }).optional(),
};

/** The snapshot that new sandboxes are made from, built once for what is to be in every one of them. */
export const baseSchema = z.lazy(() =>
  z.discriminatedUnion("state", [
    z.object({ state: z.literal("building"), ...common, name: z.string(), until: time }),
    z.object({
      state: z.literal("ready"),
      ...common,
      snapshotId: z.string(),
      runtime: z.string(),
      builtAt: time,
      expiresAt: time,
    }),
    z.object({ state: z.literal("failed"), ...common, detail: z.string(), at: time }),
  ]),
);

export type Base = z.infer<typeof baseSchema>;

/** The base as the API shows it. */
export const baseViewSchema = z
  .lazy(() =>
    z.object({
      state: z.enum(["none", "building", "ready", "stale", "failed"]),
      snapshotId: z.string().nullable(),
      runtime: z.string().nullable(),
      builtAt: z.iso.datetime().nullable(),
      expiresAt: z.iso.datetime().nullable(),
      detail: z.string().nullable(),
    }),
  )
  .meta({ id: "BaseSnapshot" });

export type BaseView = z.infer<typeof baseViewSchema>;
