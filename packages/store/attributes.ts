import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import { marshall, unmarshall } from "@aws-sdk/util-dynamodb";
import type { Condition } from "./conditions.ts";
import type { Item } from "./items.ts";

export type Attributes = Record<string, AttributeValue>;

/** Metadata becomes a `Map`: `marshall` reads `constructor` of objects, which can be a user's metadata key. */
export function toAttributes(fields: Item): Attributes {
  const { metadata } = fields;
  const safe = metadata ? { ...fields, metadata: new Map(Object.entries(metadata)) } : fields;
  return marshall(safe, { removeUndefinedValues: true });
}

export function fromAttributes(attributes: Attributes): Item {
  return unmarshall(attributes);
}

/** The names and values of an expression. DynamoDB refuses empty ones. */
export function placeholders({ names, values }: Pick<Condition, "names" | "values">) {
  return {
    ...(Object.keys(names).length > 0 && { ExpressionAttributeNames: names }),
    ...(Object.keys(values).length > 0 && { ExpressionAttributeValues: toAttributes(values) }),
  };
}
