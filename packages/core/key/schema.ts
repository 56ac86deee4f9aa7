import * as z from "zod/mini";

/** A user's key. Only its hash is kept. */
export const keySchema = z.lazy(() =>
  z.object({
    id: z.string(),
    userId: z.string(),
    admin: z.boolean(),
    hash: z.string(),
    createdAt: z.int().check(z.nonnegative()),
  }),
);

export type Key = z.infer<typeof keySchema>;
