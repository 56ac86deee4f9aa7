import { stageOf } from "./stages.ts";
import { type Index, type SecondaryIndex, type Table, topology } from "./topology.ts";

// A link only has the table's name. Permissions come from the grants.
sst.Linkable.wrap(sst.aws.Dynamo, (table) => ({ properties: { name: table.name } }));

export const tables = Object.fromEntries(
  Object.entries(topology.table).map(([name, table]) => [name, createTable(name, table)]),
);

function createTable(name: string, { fields, primaryIndex, indexes, ttlField }: Table): sst.aws.Dynamo {
  const globalIndexes = Object.entries(indexes).map(([index, definition]) => [
    index,
    { ...keys(definition), projection: projectionOf(definition) },
  ]);
  return new sst.aws.Dynamo(name, {
    fields,
    primaryIndex: keys(primaryIndex),
    globalIndexes: Object.fromEntries(globalIndexes),
    ttl: ttlField,
    deletionProtection: stageOf($app.stage).isProtected,
    transform: { table: { pointInTimeRecovery: { enabled: true } } },
  });
}

function projectionOf({ projection }: SecondaryIndex) {
  if (projection === "all") return "all";
  return projection.length === 0 ? "keys-only" : [...projection];
}

function keys({ hash, range }: Index) {
  return { hashKey: hash, rangeKey: range };
}
