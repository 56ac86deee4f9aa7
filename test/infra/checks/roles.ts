import {
  appendOnly,
  type FunctionDefinition,
  logStreams,
  topology,
  wildcards,
} from "../../../infra/topology.ts";
import { account } from "../mocks.ts";
import type { Resource } from "../program.ts";
import {
  all,
  arnOf,
  type Check,
  differs,
  find,
  grantedArn,
  inlineStatements,
  isRecord,
  type Program,
  read,
  type Statement,
  setDiffers,
  statements,
} from "../resources.ts";

const definitions: [string, FunctionDefinition][] = Object.entries(topology.functions);

/** Every role may do exactly what the topology grants its function, each action on each resource. */
export const grants: Check = (program) => {
  const expected = rolesOf(program);
  const roles = all(program, "role");
  return [
    ...setDiffers(
      "the program's roles",
      roles.map(({ name }) => name),
      expected.keys(),
    ),
    ...roles.flatMap((role) =>
      setDiffers(role.name, pairs(inlineStatements(role)), expected.get(role.name) ?? []),
    ),
    ...roles.flatMap((role) =>
      differs(`${role.name}'s managed policies`, read(role, "managedPolicyArns") ?? [], []),
    ),
    ...definitions.flatMap(([name]) =>
      differs(
        `${name}'s role`,
        read(find(program, "function", `${name}Function`), "role"),
        arnOf(find(program, "role", `${name}Role`)),
      ),
    ),
  ];
};

/** Nothing else grants anything: no policy besides the roles' own, none on a table or a queue. */
export const policiesElsewhere: Check = ({ resources }) =>
  resources
    .filter(
      ({ type }) => /^aws:iam\/(?!role:)|policy(Attachment)?:\w*Policy/i.test(type) && !isCachePolicy(type),
    )
    .map(({ type, name }) => `${name} (${type}) is a policy outside a role`);

export const trust: Check = (program) =>
  all(program, "role").flatMap((role) => [
    ...setDiffers(`${role.name}'s trust`, trusted(role), [...servicesOf(role.name)]),
  ]);

export const boundary: Check = (program) =>
  all(program, "role").flatMap((role) =>
    differs(
      `${role.name}'s boundary`,
      read(role, "permissionsBoundary"),
      `arn:aws:iam::${account}:policy/concierge-${program.stage}-boundary`,
    ),
  );

/** A `*` is used only where the topology gives a reason, and only for those actions. */
export const stars: Check = (program) =>
  all(program, "role").flatMap((role) =>
    pairs(inlineStatements(role)).flatMap((pair) => {
      const [action = "", resource = ""] = pair.split(" on ");
      const isExplained = wildcards.some(
        (wildcard) => wildcard.actions.includes(action) && wildcard.resource.test(resource),
      );
      return pair.includes("*") && !isExplained && !pair.startsWith("Deny ")
        ? [`${role.name} may ${pair}, and nobody says why`]
        : [];
    }),
  );

/** What each role should be able to do, by role name. */
function rolesOf(program: Program): Map<string, string[]> {
  const ofFunctions = definitions.map(([name, { grants }]): [string, string[]] => [
    `${name}Role`,
    [
      ...grants.flatMap(({ on, actions }) =>
        actions.map((action) => `${action} on ${grantedArn(program, on)}`),
      ),
      ...appendOnly.actions.map(
        (action) => `Deny ${action} on ${grantedArn(program, appendOnly.table)} if ${appendOnly.partitions}`,
      ),
      ...logStreams.actions.map((action) => `${action} on ${logsOf(program, name)}:*`),
    ],
  ]);
  const ofSchedules = definitions
    .filter(([, { scheduleEveryMs }]) => scheduleEveryMs !== undefined)
    .map(([name]): [string, string[]] => [
      `${name}ScheduleRole`,
      [`lambda:InvokeFunction on ${arnOf(find(program, "function", `${name}Function`))}`],
    ]);
  const ofRouter: [string, string[]][] =
    program.stage === "production" ? [["RouterEdgeFunctionRole", []]] : [];
  return new Map([...ofFunctions, ...ofSchedules, ...ofRouter]);
}

function logsOf(program: Program, name: string): string {
  return arnOf(find(program, "logGroup", `${name}Logs`));
}

function pairs(policy: Statement[]): string[] {
  return policy.flatMap(({ Effect, Action, Resource = ["(no resource)"], Condition }) =>
    [Action]
      .flat()
      .flatMap((action) =>
        Resource.map(
          (resource) =>
            `${Effect === "Allow" ? "" : `${Effect} `}${action} on ${resource}${ifOnly(Condition)}`,
        ),
      ),
  );
}

/** A condition other than the one on append-only items is shown as it is. */
function ifOnly(condition: unknown): string {
  if (condition === undefined) return "";
  const wanted = { "ForAnyValue:StringLike": { "dynamodb:LeadingKeys": [appendOnly.partitions] } };
  const text = JSON.stringify(condition);
  return text === JSON.stringify(wanted) ? ` if ${appendOnly.partitions}` : ` if ${text}`;
}

function servicesOf(role: string): string[] {
  if (role.endsWith("ScheduleRole")) return ["Service scheduler.amazonaws.com"];
  if (role === "RouterEdgeFunctionRole")
    return ["Service lambda.amazonaws.com", "Service edgelambda.amazonaws.com"];
  return ["Service lambda.amazonaws.com"];
}

function trusted(role: Resource): string[] {
  return statements(read(role, "assumeRolePolicy")).flatMap(({ Principal }) =>
    isRecord(Principal)
      ? Object.entries(Principal).flatMap(([kind, who]) => [who].flat().map((one) => `${kind} ${one}`))
      : [String(Principal)],
  );
}

function isCachePolicy(type: string): boolean {
  return type === "aws:cloudfront/cachePolicy:CachePolicy";
}
