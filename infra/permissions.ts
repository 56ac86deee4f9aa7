/** A function's grants as statements of its role's policy, and nothing more. */
import { queues } from "./queues.ts";
import { tables } from "./storage.ts";
import { appendOnly, type FunctionDefinition, type Grant, logStreams } from "./topology.ts";

type LogGroup = InstanceType<typeof aws.cloudwatch.LogGroup>;

export function permissionsOf({ grants }: FunctionDefinition, logGroup: LogGroup) {
  const granted = grants.map(({ on, actions }) => ({ actions: [...actions], resources: [arnOf(on)] }));
  const isLimited = grants.some(({ on }) => on === appendOnly.table);
  const denied = {
    effect: "deny" as const,
    actions: [...appendOnly.actions],
    resources: [arnOf(appendOnly.table)],
    conditions: [
      {
        test: "ForAnyValue:StringLike",
        variable: "dynamodb:LeadingKeys",
        values: [appendOnly.partitions],
      },
    ],
  };
  const logs = { actions: [...logStreams.actions], resources: [$interpolate`${logGroup.arn}:*`] };
  return [...granted, ...(isLimited ? [denied] : []), logs];
}

/** The `Resource` links of everything that a function has grants on. */
export function resourcesOf({ grants }: FunctionDefinition) {
  return [...new Set(grants.map(nameOf))].map(resource);
}

/** `Table/index/owner` is an index of `Table`. */
function arnOf(on: string) {
  const [name = on, ...path] = on.split("/");
  return resource(name).arn.apply((arn) => [arn, ...path].join("/"));
}

function nameOf({ on }: Grant): string {
  return on.split("/", 1)[0] ?? on;
}

function resource(name: string): sst.aws.Dynamo | sst.aws.Queue {
  const found = tables[name] ?? queues[name];
  if (!found)
    throw new Error(`a grant is on "${name}", which is neither a table nor a queue of the topology`);
  return found;
}
