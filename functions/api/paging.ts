import { AppError } from "@concierge/core";
import * as z from "zod/mini";

/** A whole number as it stands in a query: digits alone, not all that JavaScript takes for a number. */
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

/** Lists go on after an id: whose list it is comes from the key, so a cursor tells nothing and opens nothing. */
export function parseIdCursor(cursor: string | undefined, prefix: string): { after?: string } {
  if (cursor === undefined) return {};
  if (!cursor.startsWith(prefix) || !/^[a-z]+_[0-9a-z]{26}$/.test(cursor)) {
    throw new AppError("invalid_cursor", "The cursor is not one that this list gave out.");
  }
  return { after: cursor };
}

/** The same for lists of what has no id of ours: when it was made, and its name; it is put into a URL as it is. */
export function parsePlaceCursor(cursor: string | undefined): { after?: string } {
  if (cursor === undefined) return {};
  if (!/^\d{15}~[A-Za-z0-9._-]{1,64}$/.test(cursor)) {
    throw new AppError("invalid_cursor", "The cursor is not one that this list gave out.");
  }
  return { after: cursor.replace("~", "#") };
}

export function placeCursor(next: string | undefined): string | null {
  return next?.replace("#", "~") ?? null;
}
