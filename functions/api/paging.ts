import { AppError } from "@concierge/core";
import * as z from "zod/mini";

/** An integer in a query: digits only, not everything that JavaScript converts to a number. */
export function wholeNumber(min: number, max: number) {
  return z.pipe(
    z.transform((text: unknown) =>
      typeof text === "string" && /^-?\d{1,15}$/.test(text) ? Number(text) : text,
    ),
    z.int().check(z.minimum(min), z.maximum(max)),
  );
}

export const pageQuery = z.strictObject({
  limit: z._default(wholeNumber(1, 100), 20),
  cursor: z.optional(z.string()),
});

export function pageOf<T extends z.ZodMiniType>(item: T) {
  return z.object({ items: z.array(item), cursor: z.nullable(z.string()) });
}

/** The cursor of a list is the last id. It grants nothing: the caller's key decides which list is read. */
export function parseIdCursor(cursor: string | undefined, prefix: string): { after?: string } {
  if (cursor === undefined) return {};
  if (!cursor.startsWith(prefix) || !/^[a-z]+_[0-9a-z]{26}$/.test(cursor)) {
    throw new AppError("invalid_cursor", "The cursor was not returned by this list.");
  }
  return { after: cursor };
}

/** The cursor of a list of items without ids: creation time and name, in characters that need no URL encoding. */
export function parseNameCursor(cursor: string | undefined): { after?: string } {
  if (cursor === undefined) return {};
  if (!/^\d{15}~[A-Za-z0-9._-]{1,64}$/.test(cursor)) {
    throw new AppError("invalid_cursor", "The cursor was not returned by this list.");
  }
  return { after: cursor.replace("~", "#") };
}

export function formatNameCursor(next: string | undefined): string | null {
  return next?.replace("#", "~") ?? null;
}
