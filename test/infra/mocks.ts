/** What AWS returns for a resource that was just created. */
export const region = "eu-central-1";
export const account = "123456789012";

export interface Registration {
  type: string;
  name: string;
  inputs: Record<string, unknown>;
}

export function stateOf({ type, name, inputs }: Registration): Record<string, unknown> {
  const physical = String(inputs.name ?? inputs.bucket ?? name);
  return { name: physical, ...inputs, ...madeByAws(type, physical) };
}

function madeByAws(type: string, name: string): Record<string, unknown> {
  switch (type) {
    case "aws:dynamodb/table:Table":
      return { arn: arn("dynamodb", `table/${name}`) };
    case "aws:sqs/queue:Queue":
      return { arn: arn("sqs", name), url: `https://sqs.${region}.amazonaws.com/${account}/${name}` };
    case "aws:lambda/function:Function": {
      const own = arn("lambda", `function:${name}`);
      return { arn: own, qualifiedArn: `${own}:1`, version: "1", lastModified: "now" };
    }
    case "aws:lambda/functionUrl:FunctionUrl":
      return { functionUrl: `https://url.lambda-url.${region}.on.aws/` };
    case "aws:cloudwatch/logGroup:LogGroup":
      return { arn: arn("logs", `log-group:${name}`) };
    case "aws:iam/role:Role":
      return { arn: `arn:aws:iam::${account}:role/${name}` };
    case "aws:cloudfront/distribution:Distribution":
      return { arn: `arn:aws:cloudfront::${account}:distribution/${name}`, domainName: "d.cloudfront.net" };
    case "aws:sns/topic:Topic":
      return { arn: arn("sns", name) };
    case "random:index/randomBytes:RandomBytes":
      return { base64: Buffer.alloc(32).toString("base64"), hex: "00" };
    default:
      return { arn: arn(type.split(":")[1]?.split("/")[0] ?? "", name) };
  }
}

export function arn(service: string, resource: string): string {
  return `arn:aws:${service}:${region}:${account}:${resource}`;
}

interface Principals {
  type: string;
  identifiers: string[];
}

interface Statement {
  effect?: string;
  actions: string[];
  resources?: string[];
  principals?: Principals[];
  conditions?: { test: string; variable: string; values: string[] }[];
}

export function call({ token, inputs }: { token: string; inputs: Record<string, unknown> }): object {
  switch (token) {
    case "aws:index/getRegion:getRegion":
      return { region, name: region, id: region };
    case "aws:index/getPartition:getPartition":
      return { partition: "aws", dnsSuffix: "amazonaws.com", id: "aws" };
    case "aws:index/getCallerIdentity:getCallerIdentity":
      return { accountId: account, id: account };
    case "aws:iam/getPolicyDocument:getPolicyDocument":
      return { ...inputs, json: policy(inputs.statements as Statement[]) };
    default:
      return inputs;
  }
}

function policy(statements: Statement[]): string {
  const Statement = statements.map(({ effect = "Allow", actions, resources, principals, conditions }) => ({
    Effect: effect,
    Action: actions,
    ...(resources && { Resource: resources }),
    ...(conditions && {
      Condition: Object.fromEntries(
        conditions.map(({ test, variable, values }) => [test, { [variable]: values }]),
      ),
    }),
    ...(principals && {
      Principal: Object.fromEntries(principals.map(({ type, identifiers }) => [type, identifiers])),
    }),
  }));
  return JSON.stringify({ Version: "2012-10-17", Statement });
}

/** Pulumi's marker for special values, and the kind that is a secret. */
const signature = "4dabf18193072939515e22adb298388d";
const secret = "1b47061264138c4ac30d75fd1eb44270";

export function unwrapped(value: unknown): unknown {
  return walk(value, (inner) => unwrapped(inner));
}

export function masked(value: unknown): unknown {
  return walk(value, () => "(secret)");
}

function walk(value: unknown, ofSecret: (inner: unknown) => unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((item) => walk(item, ofSecret));
  if (signature in value && value[signature] === secret && "value" in value) return ofSecret(value.value);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, walk(item, ofSecret)]));
}
