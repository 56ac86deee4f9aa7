/**
 * The version that this code writes on every item. During a deploy or a rollback, old and new code share the table, so
 * each must read the other's items:
 *
 *   version n-1 has fewer fields: fields that it did not write are optional
 *   version n+1 has more fields: unknown fields are dropped on read and kept in the item
 *
 * So fields are only added. A field that must survive a write by the previous version is its own attribute, not part of a
 * map that is written as a whole. A new status, state or kind of message takes two deploys: the first reads it, the second
 * writes it. Items of other versions are refused. Items without a version are of version 1.
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
    `${String(pk)} has schema version ${String(schema)}, but this code (version ${schemaVersion}) reads ${oldestReadable} to ${newestReadable}. Deploy the versions in between one after the other.`,
  );
}
