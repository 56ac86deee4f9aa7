/** The environment of a function: what its definition lists and what Lambda sets, nothing else. */
import type { FunctionDefinition, Topology } from "../../../infra/topology.ts";
import { deadLetterQueue, queueUrl } from "../queues/queues.ts";
import { app, awsRegion, type Credentials, physicalName } from "../stack/aws.ts";
import type { Code } from "./code.ts";

/** Variables that every process needs. */
const basicVariables = ["PATH", "HOME", "TMPDIR", "TZ", "LANG", "LC_ALL"];

export interface StackContext {
  topology: Topology;
  /** The stack's environment, with defaults. */
  variables: Record<string, string | undefined>;
  secrets: Record<string, string>;
  endpoints: { dynamodb: string; sqs: string };
  /** By function name. */
  credentials: Readonly<Record<string, Credentials>>;
}

export function functionEnvironment(code: Code, stack: StackContext): Record<string, string> {
  const { definition } = code;
  return {
    ...basics(stack.variables),
    ...pick(stack.variables, variablesOf(definition)),
    ...code.files,
    ...resources(definition, stack),
    ...sdk(stack.endpoints, stack.credentials[code.name]),
    ...lambda(code),
  };
}

export function basics(variables: Record<string, string | undefined>): Record<string, string> {
  return pick(variables, basicVariables);
}

/** Functions that call the provider also get its address. */
function variablesOf({ environment }: FunctionDefinition): readonly string[] {
  return environment.includes("VERCEL_TOKEN") ? [...environment, "VERCEL_SANDBOX_URL"] : environment;
}

/** `Resource.X` of the SST SDK reads `SST_RESOURCE_X`. */
function resources(definition: FunctionDefinition, stack: StackContext): Record<string, string> {
  const granted = new Set(definition.grants.map(({ on }) => on.split("/", 1)[0] ?? on));
  const queues = Object.keys(stack.topology.queues).flatMap((name) => [name, deadLetterQueue(name)]);
  const entries: [string, object][] = [
    ["App", app],
    ...Object.keys(stack.topology.table)
      .filter((name) => granted.has(name))
      .map((name): [string, object] => [name, { name: physicalName(name), type: "sst.aws.Dynamo" }]),
    ...queues
      .filter((name) => granted.has(name))
      .map((name): [string, object] => [
        name,
        { url: queueUrl(stack.endpoints.sqs, name), type: "sst.aws.Queue" },
      ]),
    ...definition.secrets.map((name): [string, object] => [
      name,
      { value: stack.secrets[name], type: "sst.sst.Secret" },
    ]),
  ];
  return Object.fromEntries(
    entries.map(([name, resource]) => [`SST_RESOURCE_${name}`, JSON.stringify(resource)]),
  );
}

function sdk(
  endpoints: StackContext["endpoints"],
  credentials: Credentials | undefined,
): Record<string, string> {
  return {
    AWS_REGION: awsRegion,
    AWS_DEFAULT_REGION: awsRegion,
    ...(credentials && {
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    }),
    AWS_ENDPOINT_URL_DYNAMODB: endpoints.dynamodb,
    AWS_ENDPOINT_URL_SQS: endpoints.sqs,
    // A local function must not use the developer's AWS profile and reach a real account.
    AWS_CONFIG_FILE: "/dev/null",
    AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
    AWS_EC2_METADATA_DISABLED: "true",
  };
}

function lambda({ name, definition, root, handler }: Code): Record<string, string> {
  return {
    _HANDLER: handler,
    LAMBDA_TASK_ROOT: root,
    AWS_LAMBDA_FUNCTION_NAME: physicalName(name),
    AWS_LAMBDA_FUNCTION_VERSION: "$LATEST",
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(definition.memoryMb),
    AWS_LAMBDA_LOG_GROUP_NAME: `/aws/lambda/${physicalName(name)}`,
    AWS_LAMBDA_LOG_STREAM_NAME: "local",
  };
}

function pick(from: Record<string, string | undefined>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => (from[name] === undefined ? [] : [[name, from[name]] as const])),
  );
}
