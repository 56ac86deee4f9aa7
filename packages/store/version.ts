/**
 * The version of what this code writes, on every item. While a deploy rolls out, or back, the code before and the code
 * after it work on the same items, so each reads what the other wrote:
 *
 *   version n-1 knows less: what it did not write is optional here
 *   version n+1 knows more: what is not known here is dropped where it is read, and left in the item
 *
 * A field is therefore only ever added, and one that must outlive a write by the version before is an attribute of its
 * own, not part of a map that is written whole. What adds a status, a state or a kind of message comes in two deploys:
 * the first reads it, the second writes it. An item of a version further off is refused, before it is half understood.
 * Items without one were written before there were versions, and are of the first.
 */
export const schemaVersion = 3;

const oldestReadable = 1;
const newestReadable = schemaVersion + 1;

export class SchemaVersionError extends Error {
  override readonly name = "SchemaVersionError";
}

export function assertReadable({ schema = 1, pk }: Record<string, unknown>): void {
  if (typeof schema === "number" && schema >= oldestReadable && schema <= newestReadable) return;
  throw new SchemaVersionError(
    `${String(pk)} is of schema version ${String(schema)}; this code, of version ${schemaVersion}, reads ${oldestReadable} to ${newestReadable}: deploy the versions between one after the other.`,
  );
}
