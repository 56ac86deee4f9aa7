/** What a function finds in its environment: what its definition names and what Lambda sets, no more. */
import type { FunctionDefinition, Topology } from "../../infra/topology.ts";
import { APP, type Credentials, physicalName, REGION } from "./aws.ts";
import type { Code } from "./code.ts";
import { deadLetterQueue, queueUrl } from "./queues.ts";

/** Variables any process needs, whatever it does. */
const BASICS = ["PATH", "HOME", "TMPDIR", "TZ", "LANG", "LC_ALL"];

export interface Surroundings {
  topology: Topology;
  /** The stack's own environment, with its defaults. */
  variables: Record<string, string | undefined>;
  secrets: Record<string, string>;
  endpoints: { dynamodb: string; sqs: string };
  /** Each function's own, by name. */
  credentials: Readonly<Record<string, Credentials>>;
}

export function functionEnvironment(code: Code, around: Surroundings): Record<string, string> {
  const { definition } = code;
  return {
    ...basics(around.variables),
    ...pick(around.variables, variablesOf(definition)),
    ...code.files,
    ...resources(definition, around),
    ...sdk(around.endpoints, around.credentials[code.name]),
    ...lambda(code),
  };
}

export function basics(variables: Record<string, string | undefined>): Record<string, string> {
  return pick(variables, BASICS);
}

/** Who talks to the provider is told where it is. */
function variablesOf({ environment }: FunctionDefinition): readonly string[] {
  return environment.includes("VERCEL_TOKEN") ? [...environment, "VERCEL_SANDBOX_URL"] : environment;
}

/** `Resource.X` of the SST SDK reads `SST_RESOURCE_X`. */
function resources(definition: FunctionDefinition, around: Surroundings): Record<string, string> {
  const granted = new Set(definition.grants.map(({ on }) => on.split("/", 1)[0] ?? on));
  const queues = Object.keys(around.topology.queues).flatMap((name) => [name, deadLetterQueue(name)]);
  const entries: [string, object][] = [
    ["App", APP],
    ...Object.keys(around.topology.table)
      .filter((name) => granted.has(name))
      .map((name): [string, object] => [name, { name: physicalName(name), type: "sst.aws.Dynamo" }]),
    ...queues
      .filter((name) => granted.has(name))
      .map((name): [string, object] => [
        name,
        { url: queueUrl(around.endpoints.sqs, name), type: "sst.aws.Queue" },
      ]),
    ...definition.secrets.map((name): [string, object] => [
      name,
      { value: around.secrets[name], type: "sst.sst.Secret" },
    ]),
  ];
  return Object.fromEntries(
    entries.map(([name, resource]) => [`SST_RESOURCE_${name}`, JSON.stringify(resource)]),
  );
}

function sdk(
  endpoints: Surroundings["endpoints"],
  credentials: Credentials | undefined,
): Record<string, string> {
  return {
    AWS_REGION: REGION,
    AWS_DEFAULT_REGION: REGION,
    ...(credentials && {
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    }),
    AWS_ENDPOINT_URL_DYNAMODB: endpoints.dynamodb,
    AWS_ENDPOINT_URL_SQS: endpoints.sqs,
    // A developer's own profile must not lead a local function to a real account.
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
