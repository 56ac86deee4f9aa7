import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import { marshall, unmarshall } from "@aws-sdk/util-dynamodb";
import type { Condition } from "./conditions.ts";
import type { Item } from "./items.ts";

export type Attributes = Record<string, AttributeValue>;

/** In metadata a key may be `constructor`, by which marshalling tells what an object is: of a map it does not ask. */
export function toAttributes(fields: Item): Attributes {
  const { metadata } = fields;
  const asked = metadata ? { ...fields, metadata: new Map(Object.entries(metadata)) } : fields;
  return marshall(asked, { removeUndefinedValues: true });
}

export function fromAttributes(attributes: Attributes): Item {
  return unmarshall(attributes);
}

/** What an expression's placeholders stand for; the table refuses a list of none. */
export function placeholders({ names, values }: Pick<Condition, "names" | "values">) {
  return {
    ...(Object.keys(names).length > 0 && { ExpressionAttributeNames: names }),
    ...(Object.keys(values).length > 0 && { ExpressionAttributeValues: toAttributes(values) }),
  };
}
