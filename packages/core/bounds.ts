import * as z from "zod/mini";

/** How large a stored value can get: a text in bytes, a list or a record in items. */
export interface Bound {
  maxBytes?: number;
  maxItems?: number;
}

/**
 * The bounds of stored values, beside their schemas. Each is enforced where a value is written, through the limit it is
 * computed from. Reading rejects nothing: an item that grew too large must still be readable, so that it can be ended.
 * `packages/store/size.test.ts` computes the largest size of each item from these bounds.
 */
export const bounds = z.registry<Bound>();

export function bounded<T extends z.core.$ZodType>(schema: T, bound: Bound): T {
  bounds.add(schema, bound);
  return schema;
}

/** A text that is checked by length: one UTF-16 unit takes at most three bytes of UTF-8. */
export function textOf(maxLength: number) {
  return bounded(z.string(), { maxBytes: 3 * maxLength });
}

/** A text of ASCII characters only. */
export function wordOf(maxLength: number) {
  return bounded(z.string(), { maxBytes: maxLength });
}

/** The provider's names and ids of sandboxes, sessions, snapshots and commands. */
export const providerId = () => wordOf(128);
/** Our own ids of tasks, keys and claims. */
export const ownId = () => wordOf(40);
export const userId = () => wordOf(64);
export const sessionKey = () => wordOf(64);

/**
 * The start of a text, at most `maxBytes` long including the mark that says it was cut. Never cuts a character in two.
 */
export function cutTo(maxBytes: number, text: string, mark = "…"): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  let end = Math.max(maxBytes - Buffer.byteLength(mark), 0);
  while (end > 0 && isInsideCharacter(bytes[end])) end -= 1;
  return `${bytes.subarray(0, end).toString("utf8")}${mark}`;
}

function isInsideCharacter(byte = 0): boolean {
  return (byte & 0b1100_0000) === 0b1000_0000;
}
