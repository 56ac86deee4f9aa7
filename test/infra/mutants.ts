import type { checks } from "./checks/index.ts";
import type { Mutation } from "./program.ts";

/** A mistake that someone could make in the infrastructure, and the check that must find it. */
interface Mutant {
  mistake: string;
  stage: "dev" | "production";
  mutation: Mutation;
  foundBy: keyof typeof checks;
}

export const mutants: readonly Mutant[] = [
  {
    mistake: "the runners' api gets no path at the router",
    stage: "production",
    mutation: { file: "infra/functions.ts", from: ", ...(path !== undefined && { path })", to: "" },
    foundBy: "the router limits rates and keeps nothing",
  },
  {
    mistake: "functions may change the audit log",
    stage: "dev",
    mutation: { file: "infra/permissions.ts", from: "...(isLimited ? [denied] : []), ", to: "" },
    foundBy: "roles may do exactly what the topology grants",
  },
  {
    mistake: "functions may change nothing at all",
    stage: "dev",
    mutation: {
      file: "infra/permissions.ts",
      from: 'variable: "dynamodb:LeadingKeys"',
      to: 'variable: "aws:username"',
    },
    foundBy: "roles may do exactly what the topology grants",
  },
  {
    mistake: "links grant what SST has them grant",
    stage: "dev",
    mutation: {
      file: "infra/storage.ts",
      from: "sst.Linkable.wrap(sst.aws.Dynamo, (table) => ({ properties: { name: table.name } }));",
      to: "",
    },
    foundBy: "roles may do exactly what the topology grants",
  },
  {
    mistake: "the timer may put items",
    stage: "dev",
    mutation: {
      file: "infra/topology.ts",
      from: '{ on: "Table", actions: [...readAndChange, "dynamodb:Query"] },',
      to: '{ on: "Table", actions: [...readAndChange, "dynamodb:Query", "dynamodb:PutItem"] },',
    },
    foundBy: "roles may do exactly what the topology grants",
  },
  {
    mistake: "the webhooks' function may send work",
    stage: "dev",
    mutation: {
      file: "infra/topology.ts",
      from: '{ on: "WebhookQueue", actions: [...receive, ...send] },',
      to: '{ on: "WebhookQueue", actions: [...receive, ...send] }, { on: "WorkQueue", actions: ["sqs:*"] },',
    },
    foundBy: "a wildcard has its reason",
  },
  {
    mistake: "runners of one address share its rate",
    stage: "production",
    mutation: {
      file: "infra/router.ts",
      from: "rules: firewallRules,",
      to: 'rules: firewallRules.map((rule) => ({ ...rule, statement: { rateBasedStatement: { ...rule.statement.rateBasedStatement, aggregateKeyType: "IP" } } })),',
    },
    foundBy: "the router limits rates and keeps nothing",
  },
  {
    mistake: "an index has less in it than the topology says",
    stage: "dev",
    mutation: {
      file: "infra/storage.ts",
      from: 'projection.length === 0 ? "keys-only" : [...projection]',
      to: '"keys-only"',
    },
    foundBy: "tables have their keys, indexes, TTL and recovery",
  },
  {
    mistake: "an index's grant is on the whole table",
    stage: "dev",
    mutation: { file: "infra/permissions.ts", from: '[arn, ...path].join("/")', to: "arn" },
    foundBy: "roles may do exactly what the topology grants",
  },
  {
    mistake: "functions are subscribed with SST's own permissions",
    stage: "dev",
    mutation: { file: "infra/functions.ts", from: ", managedPolicyArns: []", to: "" },
    foundBy: "roles may do exactly what the topology grants",
  },
  {
    mistake: "a function may write to every log",
    stage: "dev",
    mutation: { file: "infra/permissions.ts", from: "logGroup.arn}:*", to: "logGroup.arn}*" },
    foundBy: "a wildcard has its reason",
  },
  {
    mistake: "the whole account may assume a function's role",
    stage: "dev",
    mutation: { file: "infra/functions.ts", from: "assumeRolePolicy: lambdaTrust, ", to: "" },
    foundBy: "roles trust the service they are for, and no account",
  },
  {
    mistake: "roles have no boundary",
    stage: "production",
    mutation: {
      file: "infra/roles.ts",
      from: "if (!$dev) role.permissionsBoundary",
      to: "if ($dev) role.permissionsBoundary",
    },
    foundBy: "every role carries the boundary",
  },
  {
    mistake: "expired items stay",
    stage: "dev",
    mutation: { file: "infra/storage.ts", from: "ttl: ttlField,", to: "" },
    foundBy: "tables have their keys, indexes, TTL and recovery",
  },
  {
    mistake: "the table cannot be restored",
    stage: "production",
    mutation: {
      file: "infra/storage.ts",
      from: "pointInTimeRecovery: { enabled: true }",
      to: "pointInTimeRecovery: { enabled: false }",
    },
    foundBy: "tables have their keys, indexes, TTL and recovery",
  },
  {
    mistake: "production's table can be deleted",
    stage: "production",
    mutation: {
      file: "infra/storage.ts",
      from: "deletionProtection: stageOf($app.stage).isProtected,",
      to: "",
    },
    foundBy: "production is protected, other stages are removable",
  },
  {
    mistake: "production is removed with all it has",
    stage: "production",
    mutation: { file: "sst.config.ts", from: 'isProtected ? "retain" : "remove"', to: '"remove"' },
    foundBy: "production is protected, other stages are removable",
  },
  {
    mistake: "a queue has no dead letters",
    stage: "dev",
    mutation: {
      file: "infra/queues.ts",
      from: "dlq: { queue: dlq.arn, retry: definition.maxReceives },",
      to: "",
    },
    foundBy: "queues are encrypted, have their times and their dead letters",
  },
  {
    mistake: "a queue is not encrypted",
    stage: "dev",
    mutation: {
      file: "infra/queues.ts",
      from: "sqsManagedSseEnabled: true",
      to: "sqsManagedSseEnabled: false",
    },
    foundBy: "queues are encrypted, have their times and their dead letters",
  },
  {
    mistake: "a message is shown again while it is worked on",
    stage: "dev",
    mutation: {
      file: "infra/queues.ts",
      from: "visibilityTimeout: duration(definition.visibilityTimeoutMs),",
      to: "",
    },
    foundBy: "event sources feed functions as the topology says",
  },
  {
    mistake: "one message that fails brings its batch back",
    stage: "dev",
    mutation: {
      file: "infra/functions.ts",
      from: "size: batchSize, partialResponses",
      to: "size: batchSize",
    },
    foundBy: "event sources feed functions as the topology says",
  },
  {
    mistake: "nothing bounds how many workers there are",
    stage: "dev",
    mutation: {
      file: "infra/functions.ts",
      from: "{ scalingConfig: { maximumConcurrency: maxConcurrency } }",
      to: "{}",
    },
    foundBy: "event sources feed functions as the topology says",
  },
  {
    mistake: "production reserves no concurrency",
    stage: "production",
    mutation: { file: "infra/functions.ts", from: "...(stage.reservesConcurrency &&", to: "...(false &&" },
    foundBy: "functions are as the topology says",
  },
  {
    mistake: "Lambda takes a timer for a loop",
    stage: "dev",
    mutation: {
      file: "infra/functions.ts",
      from: 'recursiveLoop: "Allow"',
      to: 'recursiveLoop: "Terminate"',
    },
    foundBy: "what feeds itself is allowed to",
  },
  {
    mistake: "the reaper comes when it wants",
    stage: "dev",
    mutation: {
      file: "infra/schedule.ts",
      from: "schedule: rate(scheduleEveryMs)",
      to: 'schedule: "rate(5 minutes)"',
    },
    foundBy: "the reaper comes once a minute",
  },
  {
    mistake: "logs are kept for ever",
    stage: "production",
    mutation: { file: "infra/functions.ts", from: ", retentionInDays: stage.logRetentionDays", to: "" },
    foundBy: "logs are kept as long as the stage says",
  },
  {
    mistake: "every function has the agents' keys",
    stage: "dev",
    mutation: {
      file: "infra/topology.ts",
      from: '"CONCIERGE_STAGE", "CONCIERGE_ALLOW_PRIVATE_HOSTS",',
      to: '"CONCIERGE_STAGE", "CONCIERGE_ALLOW_PRIVATE_HOSTS", "ANTHROPIC_API_KEY",',
    },
    foundBy: "secrets are where they are named, and shown nowhere",
  },
  {
    mistake: "a secret's value is in the open",
    stage: "dev",
    mutation: {
      file: "infra/functions.ts",
      from: "...platform,",
      to: "...platform, description: process.env.SST_SECRET_SealingKey,",
    },
    foundBy: "secrets are where they are named, and shown nowhere",
  },
  {
    mistake: "the worker is not told where the runner is",
    stage: "dev",
    mutation: { file: "infra/environment.ts", from: ", ...fileNames(definition)", to: "" },
    foundBy: "the bundles that were tested are shipped",
  },
  {
    mistake: "SST bundles the functions anew",
    stage: "dev",
    mutation: {
      file: "infra/code.ts",
      from: "{ bundle: join($cli.paths.root, directory), handler: bundling.handler }",
      to: "{ handler: definition.handler }",
    },
    foundBy: "the bundles that were tested are shipped",
  },
  {
    mistake: "the api answers all at once",
    stage: "dev",
    mutation: { file: "infra/functions.ts", from: "streaming: true", to: "streaming: false" },
    foundBy: "the api alone has a URL, and streams",
  },
  {
    mistake: "the api is reached around the router",
    stage: "production",
    mutation: { file: "infra/router.ts", from: 'protection: "oac-with-edge-signing",', to: "" },
    foundBy: "nobody reaches the api but the way they should",
  },
  {
    mistake: "production's api is as open as dev's",
    stage: "production",
    mutation: { file: "infra/stages.ts", from: "isFronted: true", to: "isFronted: false" },
    foundBy: "the router limits rates and keeps nothing",
  },
  {
    mistake: "anyone may ask as often as they like",
    stage: "production",
    mutation: {
      file: "infra/router.ts",
      from: "rules: firewallRules,",
      to: "rules: firewallRules.slice(0, 1),",
    },
    foundBy: "the router limits rates and keeps nothing",
  },
  {
    mistake: "the router keeps answers for others",
    stage: "production",
    mutation: { file: "infra/router.ts", from: "cachePolicyId: noCachePolicy,", to: "" },
    foundBy: "the router limits rates and keeps nothing",
  },
  {
    mistake: "nobody's key reaches the api through the router",
    stage: "production",
    mutation: { file: "infra/router.ts", from: "injection: keepAuthorization", to: 'injection: ""' },
    foundBy: "the router limits rates and keeps nothing",
  },
];
