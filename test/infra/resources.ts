import { stateOf } from "./mocks.ts";
import type { Evaluated, Resource } from "./program.ts";

/** A program that was given all secrets and variables. */
export type Program = Evaluated & { stage: string; secrets: Record<string, string> };

/** What is wrong with a program, one line each. */
export type Check = (program: Program) => string[];

export const types = {
  table: "aws:dynamodb/table:Table",
  queue: "aws:sqs/queue:Queue",
  role: "aws:iam/role:Role",
  function: "aws:lambda/function:Function",
  functionUrl: "aws:lambda/functionUrl:FunctionUrl",
  permission: "aws:lambda/permission:Permission",
  source: "aws:lambda/eventSourceMapping:EventSourceMapping",
  recursion: "aws:lambda/functionRecursionConfig:FunctionRecursionConfig",
  invokeConfig: "aws:lambda/functionEventInvokeConfig:FunctionEventInvokeConfig",
  provisioned: "aws:lambda/provisionedConcurrencyConfig:ProvisionedConcurrencyConfig",
  schedule: "aws:scheduler/schedule:Schedule",
  logGroup: "aws:cloudwatch/logGroup:LogGroup",
  distribution: "aws:cloudfront/distribution:Distribution",
  edgeFunction: "aws:cloudfront/function:Function",
  waf: "aws:wafv2/webAcl:WebAcl",
  alarm: "aws:cloudwatch/metricAlarm:MetricAlarm",
  dashboard: "aws:cloudwatch/dashboard:Dashboard",
  topic: "aws:sns/topic:Topic",
} as const;

export function all({ resources }: Program, type: keyof typeof types): Resource[] {
  return resources.filter((resource) => resource.type === types[type]);
}

export function find(program: Program, type: keyof typeof types, name: string): Resource | undefined {
  return all(program, type).find((resource) => resource.name === name);
}

/** An input by its path: `ttl.attributeName`. */
export function read(resource: Resource | undefined, path: string): unknown {
  return path.split(".").reduce((value: unknown, key) => (isRecord(value) ? value[key] : undefined), {
    ...resource?.inputs,
  });
}

export function arnOf(resource: Resource | undefined): string {
  return resource ? String(stateOf(resource).arn) : "(there is none)";
}

export function nameOf(resource: Resource | undefined): string {
  return resource ? String(stateOf(resource).name) : "(there is none)";
}

/** The ARN that a grant is on: `Table/index/owner` is an index of `Table`. */
export function grantedArn(program: Program, on: string): string {
  const [name = "", ...path] = on.split("/");
  const resource = find(program, "table", `${name}Table`) ?? find(program, "queue", `${name}Queue`);
  return [arnOf(resource), ...path].join("/");
}

export interface Statement {
  Effect: string;
  Action: string | string[];
  Resource?: string[];
  Condition?: Record<string, Record<string, string>>;
  Principal?: string | Record<string, string | string[]>;
}

export function statements(policy: unknown): Statement[] {
  return typeof policy === "string" ? JSON.parse(policy).Statement : [];
}

export function inlineStatements(role: Resource): Statement[] {
  const policies = read(role, "inlinePolicies");
  return list(policies).flatMap((policy) => (isRecord(policy) ? statements(policy.policy) : []));
}

/** One line if they differ. The order in a list counts, that of keys does not. */
export function differs(what: string, actual: unknown, wanted: unknown): string[] {
  const [is, should] = [stable(actual), stable(wanted)];
  return is === should ? [] : [`${what} is ${is}, not ${should}`];
}

/** One line for each extra or missing element. */
export function setDiffers(what: string, actual: Iterable<string>, wanted: Iterable<string>): string[] {
  const [is, should] = [new Set(actual), new Set(wanted)];
  return [
    ...[...is].filter((one) => !should.has(one)).map((one) => `${what} has ${one}`),
    ...[...should].filter((one) => !is.has(one)).map((one) => `${what} lacks ${one}`),
  ];
}

export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function stable(value: unknown): string {
  const sorted = (_key: string, inner: unknown) =>
    isRecord(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner;
  return JSON.stringify(value, sorted) ?? "absent";
}
