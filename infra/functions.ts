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

/** CloudFront's longest read timeout. Streams and waits send something earlier; a long `exec` may not. */
const silenceLimit = "60 seconds";

const { Api, ApiRunner, ...others } = topology.functions;
const api = createFunction("Api", Api, {});
const apiRunner = createFunction("ApiRunner", ApiRunner, {});
/** Behind CloudFront both have one address, and the path decides. */
const callbackUrl = router ? api.url : apiRunner.url;

/** The functions by name. Those with a URL come first, because others get it as a variable. */
export const functions: Record<string, sst.aws.Function> = {
  Api: api,
  ApiRunner: apiRunner,
  ...Object.fromEntries(
    Object.entries(others).map(([name, definition]) => [
      name,
      createFunction(name, definition, { CONCIERGE_URL: callbackUrl }),
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
    ...(http === "stream" && { streaming: true, url: urlOf(definition) }),
    link: [...resourcesOf(definition), ...secrets.map((secret) => linked.get(secret))],
    permissions: permissionsOf(definition, logGroup),
    environment: environmentOf(name, definition, known),
    logging: { logGroup: logGroup.name },
    ...(stage.reservesConcurrency &&
      definition.reserved && { concurrency: { reserved: definition.reserved.concurrency } }),
    // A failed or late reaper pass is not retried, because the next one comes within a minute.
    ...(scheduleEveryMs !== undefined && { retries: 0 }),
    transform: {
      // Removes the managed policy, which covers all log groups. See `permissionsOf`.
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

function urlOf({ path }: FunctionDefinition) {
  if (!router) return { cors: false };
  const route = { instance: router, readTimeout: silenceLimit, ...(path !== undefined && { path }) } as const;
  return { cors: false, router: route } as const;
}

/** By ARN: for a function, SST would add its own permissions to those of the topology. */
function subscribe(
  fn: sst.aws.Function,
  { queue, batchSize, maxConcurrency, partialResponses }: QueueSource,
) {
  const from = queues[queue];
  if (!from) throw new Error(`a function is triggered by "${queue}", which is not a queue of the topology`);
  from.subscribe(fn.arn, {
    batch: { size: batchSize, partialResponses },
    transform: { eventSourceMapping: { scalingConfig: { maximumConcurrency: maxConcurrency } } },
  });
}
