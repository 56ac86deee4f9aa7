import { z } from "zod";
import { ApiError } from "./errors.ts";
import type { Page } from "./requests.ts";

type SortValue = string | number;
const Cursor = z.tuple([z.union([z.string(), z.number()]), z.string()]);

/** A cursor names the last item of a page, so that inserts and deletions do not shift the next page. */
export function paginate<T extends { id: string }>(
  items: T[],
  page: Page,
  sortValue: (item: T) => SortValue,
) {
  const direction = page.sortOrder === "asc" ? 1 : -1;
  const position = (item: T): Position => [sortValue(item), item.id];
  const after = page.cursor === undefined ? undefined : decode(page.cursor);
  const rest = items
    .filter((item) => after === undefined || direction * compare(position(item), after) > 0)
    .sort((a, b) => direction * compare(position(a), position(b)));
  const shown = rest.slice(0, page.limit);
  const last = shown.at(-1);
  const next = last && rest.length > shown.length ? encode(position(last)) : null;
  return { items: shown, pagination: { count: shown.length, next } };
}

type Position = z.infer<typeof Cursor>;

function compare([a, aId]: Position, [b, bId]: Position): number {
  if (a !== b) return a < b ? -1 : 1;
  if (aId === bId) return 0;
  return aId < bId ? -1 : 1;
}

function encode(position: Position): string {
  return Buffer.from(JSON.stringify(position)).toString("base64url");
}

function decode(cursor: string): Position {
  try {
    return Cursor.parse(JSON.parse(Buffer.from(cursor, "base64url").toString("utf8")));
  } catch {
    throw new ApiError("bad_request", "The cursor is not valid.");
  }
}
