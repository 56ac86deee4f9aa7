import { codeOf } from "./code.ts";
import { environmentOf } from "./environment.ts";
import { permissionsOf, resourcesOf } from "./permissions.ts";
import { queues } from "./queues.ts";
import { lambdaTrust } from "./roles.ts";
import { router } from "./router.ts";
import { linked } from "./secrets.ts";
import { stageOf } from "./stages.ts";
import { type FunctionDefinition, platform, type QueueSource, topology } from "./topology.ts";

const stage = stageOf($app.stage);

/** The longest silence CloudFront bears in an answer. Streams and waits speak sooner; a long `exec` may not. */
const silenceLimit = "60 seconds";

const { Api, ...others } = topology.functions;
const api = createFunction("Api", Api, {});

/** By name. The api is the first: where it is, is a variable of others. */
export const functions: Record<string, sst.aws.Function> = {
  Api: api,
  ...Object.fromEntries(
    Object.entries(others).map(([name, definition]) => [
      name,
      createFunction(name, definition, { CONCIERGE_URL: api.url }),
    ]),
  ),
};

function createFunction(
  name: string,
  definition: FunctionDefinition,
  addresses: Record<string, $util.Output<string>>,
): sst.aws.Function {
  const { timeoutMs, memoryMb, http, secrets, sources = [], scheduleEveryMs } = definition;
  const logGroup = createLogGroup(name);
  const known = {
    CONCIERGE_STAGE: $app.stage,
    CONCIERGE_ALLOW_PRIVATE_HOSTS: "false",
    ...addresses,
  };
  const fn = new sst.aws.Function(name, {
    ...platform,
    ...codeOf(name, definition),
    timeout: `${Math.ceil(timeoutMs / 1000)} seconds`,
    memory: `${memoryMb} MB`,
    ...(http === "stream" && { streaming: true, url: urlOf() }),
    link: [...resourcesOf(definition), ...secrets.map((secret) => linked.get(secret))],
    permissions: permissionsOf(definition, logGroup),
    environment: environmentOf(name, definition, known),
    logging: { logGroup: logGroup.name },
    ...(stage.reservesConcurrency &&
      definition.reserved && { concurrency: { reserved: definition.reserved.concurrency } }),
    // The next minute comes anyway: a sweep that failed, or came too late, is not repeated beside it.
    ...(scheduleEveryMs !== undefined && { retries: 0 }),
    transform: {
      // The managed policy, which is for all log groups there are, goes: see `permissionsOf`.
      role: { assumeRolePolicy: lambdaTrust, managedPolicyArns: [] },
      ...(scheduleEveryMs !== undefined && {
        eventInvokeConfig: { maximumEventAgeInSeconds: Math.max(60, scheduleEveryMs / 1000) },
      }),
    },
  });
  for (const source of sources) subscribe(fn, source);
  if (definition.feedsItself) {
    new aws.lambda.FunctionRecursionConfig(`${name}Recursion`, {
      functionName: fn.name,
      recursiveLoop: "Allow",
    });
  }
  return fn;
}

function createLogGroup(name: string) {
  return new aws.cloudwatch.LogGroup(
    `${name}Logs`,
    { name: `/aws/lambda/concierge-${$app.stage}-${name}`, retentionInDays: stage.logRetentionDays },
    { retainOnDelete: stage.isProtected },
  );
}

function urlOf() {
  if (!router) return { cors: false };
  return { cors: false, router: { instance: router, readTimeout: silenceLimit } } as const;
}

/** By ARN: given as a function, SST would add its own permissions to those of the topology. */
function subscribe(
  fn: sst.aws.Function,
  { queue, batchSize, maxConcurrency, partialResponses }: QueueSource,
) {
  const from = queues[queue];
  if (!from) throw new Error(`a function is fed by "${queue}", which is no queue of the topology`);
  from.subscribe(fn.arn, {
    batch: { size: batchSize, partialResponses },
    transform: { eventSourceMapping: { scalingConfig: { maximumConcurrency: maxConcurrency } } },
  });
}
