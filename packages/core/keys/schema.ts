import * as z from "zod/mini";
import { bounded, ownId, textOf, userId, wordOf } from "../bounds.ts";
import { keyNameMaxLength } from "../limits.ts";

/** What a key may do. `admin` includes everything. */
export const scopes = [
  "tasks:read",
  "tasks:write",
  "sessions:read",
  "sessions:write",
  "keys",
  "admin",
] as const;
export type Scope = (typeof scopes)[number];

const time = z.int().check(z.nonnegative());

/** A user's key. Only its hash is stored. */
export const keySchema = z.lazy(() =>
  z.object({
    id: ownId(),
    userId: userId(),
    admin: z.boolean(),
    hash: wordOf(64),
    name: z.optional(textOf(keyNameMaxLength)),
    /** Absent on keys from before scopes: those may do everything their user may. */
    scopes: z.optional(bounded(z.array(z.enum(scopes)), { maxItems: scopes.length })),
    createdAt: time,
    /** Not accepted from this time on. */
    expiresAt: z.optional(time),
    /** Updated at most every ten minutes. */
    lastUsedAt: z.optional(time),
  }),
);

export type Key = z.infer<typeof keySchema>;
