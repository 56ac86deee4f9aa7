import { placeholders } from "./attributes.ts";
import type { Condition } from "./conditions.ts";

export interface UpdateParts {
  set: Record<string, unknown>;
  /** Set only if the item does not have the attribute. */
  setOnce?: Record<string, unknown>;
  append?: Record<string, unknown>;
  add?: Record<string, number>;
  remove?: readonly string[];
}

/** Builds the expressions of an UpdateItem. Every attribute name becomes a placeholder. */
export function buildUpdate(parts: UpdateParts, condition?: Condition) {
  const names: Record<string, string> = { ...condition?.names };
  const values: Record<string, unknown> = { ...condition?.values };
  const name = (attribute: string) => {
    names[`#${attribute}`] = attribute;
    return `#${attribute}`;
  };
  const value = (prefix: string, attribute: string, what: unknown) => {
    values[`:${prefix}_${attribute}`] = what;
    return `:${prefix}_${attribute}`;
  };

  const sets = [
    ...entries(parts.set).map(([key, what]) => `${name(key)} = ${value("set", key, what)}`),
    ...entries(parts.setOnce).map(
      ([key, what]) => `${name(key)} = if_not_exists(${name(key)}, ${value("once", key, what)})`,
    ),
    ...entries(parts.append).map(
      ([key, what]) => `${name(key)} = list_append(${name(key)}, ${value("append", key, [what])})`,
    ),
  ];
  const adds = entries(parts.add).map(([key, by]) => `${name(key)} ${value("add", key, by)}`);
  const removes = (parts.remove ?? []).map(name);
  const clause = (word: string, list: string[]) => (list.length > 0 ? [`${word} ${list.join(", ")}`] : []);

  return {
    UpdateExpression: [...clause("SET", sets), ...clause("ADD", adds), ...clause("REMOVE", removes)].join(
      " ",
    ),
    ...(condition && { ConditionExpression: condition.expression }),
    ...placeholders({ names, values }),
  };
}

function entries<T>(record: Record<string, T> | undefined): [string, T][] {
  return Object.entries(record ?? {}).filter(([, what]) => what !== undefined);
}
