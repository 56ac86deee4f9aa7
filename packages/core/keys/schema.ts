import * as z from "zod/mini";
import { ownId, userId, wordOf } from "../bounds.ts";

/** A user's key. Only its hash is stored. */
export const keySchema = z.lazy(() =>
  z.object({
    id: ownId(),
    userId: userId(),
    admin: z.boolean(),
    hash: wordOf(64),
    createdAt: z.int().check(z.nonnegative()),
  }),
);

export type Key = z.infer<typeof keySchema>;
