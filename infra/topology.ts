/**
 * What Concierge is made of, as plain data: no IaC import here. The local stack is built from it
 * (packages/local) and so is the stack on AWS (sst.config.ts). A resource's key is its name in `Resource`.
 */

import { basename } from "node:path";

export interface Index {
  hash: string;
  range: string;
}

export interface SecondaryIndex extends Index {
  /** The attributes that are in it beside the keys. A deployed index cannot change them: see docs/operations.md. */
  projection: "all" | readonly string[];
}

export interface Table {
  fields: Record<string, "string" | "number">;
  primaryIndex: Index;
  indexes: Record<string, SecondaryIndex>;
  ttlField: string;
}

export interface Queue {
  /** Delay of a message that asks for none of its own. */
  delayMs: number;
  /** When a message that was received and not deleted is shown again. */
  visibilityTimeoutMs: number;
  /** Receives before a message goes to the dead-letter queue, whose name is the queue's with `Dlq` behind it. */
  maxReceives: number;
  retentionMs: number;
  /** Longer than the queue's own: a message keeps the age it came with. */
  deadLetterRetentionMs: number;
}

export interface QueueSource {
  queue: string;
  batchSize: number;
  /** Invocations under way at once, over all processes of the function. */
  maxConcurrency: number;
  /** The handler answers `{batchItemFailures}`; only those come back. */
  partialResponses: boolean;
}

/** Exactly what a function's role may do, and on which resource (`Table/index/owner` is an index). */
export interface Grant {
  on: string;
  actions: readonly string[];
}

export interface FunctionDefinition {
  /** `path/to/module.export`, from the root of the repository, without the file's ending. */
  handler: string;
  timeoutMs: number;
  memoryMb: number;
  /** Reached over HTTP (a function URL); `stream` answers by response streaming. */
  http?: "stream";
  sources?: readonly QueueSource[];
  scheduleEveryMs?: number;
  /** Variables handed on from the stack's own environment, where they are set. */
  environment: readonly string[];
  /** Secrets in `Resource`, by name. */
  secrets: readonly string[];
  grants: readonly Grant[];
  /** Modules bundled to one plain file each; the variable holds the file's path. */
  assets?: Readonly<Record<string, string>>;
  /** Files of packages that go with it as they are; the variable holds the file's path. */
  files?: Readonly<Record<string, string>>;
  /** On AWS: invocations under way at once that are this function's alone, and as many as it may have. */
  reserved?: { concurrency: number; reason: string };
  /** On AWS: why Lambda is not to take its messages to its own queue for a loop, and stop it after 16. */
  feedsItself?: string;
}

/** A variable whose value is a secret on AWS, by the secret's name there. */
export interface SecretVariable {
  secret: string;
  /** Without it the variable is absent, and whatever needs it says so. */
  isOptional?: boolean;
}

/** Requests of one caller to the api before the router refuses more, on stages that have one. */
export interface RateLimit {
  perFiveMinutes: number;
  reason: string;
}

export interface Topology {
  table: Record<string, Table>;
  queues: Record<string, Queue>;
  functions: Record<string, FunctionDefinition>;
}

const second = 1000;
const minute = 60 * second;
const day = 24 * 60 * minute;

/** The longest create and install a worker waits for. */
const workerTimeoutMs = 2 * minute;
const timerTimeoutMs = minute;
/** A receiver has 10 s to answer. */
const webhookTimeoutMs = 30 * second;
const workerConcurrency = 20;
const timerConcurrency = 20;
const webhookConcurrency = 10;

/**
 * How long a queue hides a message, in time-outs of the function that works on it. AWS recommends six, for messages
 * that wait inside of Lambda while their function is throttled; an event source here never asks for more concurrency
 * than its function has. A lost message comes back only after this time, and a turn waits for it: hence two. By then
 * the reaper has mostly done the work. Nobody waits for a webhook.
 */
const hiddenFor = { turns: 2, webhooks: 6 } as const;

const limits = [
  "AGENT_INACTIVITY_TIMEOUT_MS",
  "AGENT_MAX_WAIT_TIME_MS",
  "AGENT_MAX_OUTPUT_BYTES",
  "SESSION_IDLE_TIMEOUT_MS",
  "POOL_MAX_SANDBOXES",
  "POOL_MAX_PER_USER",
  "POOL_WARM_TARGET",
  "SANDBOX_MAX_LIFE_MS",
  "SANDBOX_AGENTS",
  "SANDBOX_SETUP",
] as const;
const flags = [
  "ENABLE_DB_BACKED_STOP",
  "ENABLE_CANCELLATION_CHECKS",
  "ENABLE_HEALTH_PROBE",
  "ENABLE_INACTIVITY_TIMEOUT",
  "ENABLE_AUTHORITATIVE_TIMEOUT",
] as const;
const common = ["CONCIERGE_STAGE", "CONCIERGE_ALLOW_PRIVATE_HOSTS", ...limits, ...flags] as const;
const provider = ["VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID"] as const;

/** The agents' keys are the worker's alone. */
const agentKeys = [
  "ANTHROPIC_API_KEY",
  "ANTHROPIC_BASE_URL",
  "OPENAI_API_KEY",
  "OPENAI_BASE_URL",
  "CURSOR_API_KEY",
] as const;

export const secretVariables: Readonly<Record<string, SecretVariable>> = {
  VERCEL_TOKEN: { secret: "VercelToken" },
  VERCEL_TEAM_ID: { secret: "VercelTeamId" },
  VERCEL_PROJECT_ID: { secret: "VercelProjectId" },
  ANTHROPIC_API_KEY: { secret: "AnthropicApiKey", isOptional: true },
  OPENAI_API_KEY: { secret: "OpenaiApiKey", isOptional: true },
  CURSOR_API_KEY: { secret: "CursorApiKey", isOptional: true },
};

/** Every `*` in a policy's resources, and why AWS leaves no other way. */
export interface Wildcard {
  actions: readonly string[];
  resource: RegExp;
  reason: string;
}

/** Every function writes to its own log group, beside its grants. */
export const logStreams = {
  actions: ["logs:CreateLogStream", "logs:PutLogEvents"],
  resource: /:log-group:\/aws\/lambda\/concierge-[a-z0-9-]+-[A-Z][A-Za-z]+:\*$/,
  reason: "Lambda names a stream as it starts a process",
} as const satisfies Wildcard;

export const wildcards: readonly Wildcard[] = [logStreams];

/** What every function runs on. */
export const platform = { runtime: "nodejs24.x", architecture: "arm64" } as const;

/**
 * How functions are bundled, by `npm run build` (packages/local): each to `<directory>/<its name>`, with its
 * assets and files beside the code. A variable that holds a path is relative to that directory on AWS.
 */
export const bundling = { directory: "dist", handler: "bundle.handler", target: "es2024" } as const;

/** What its assets and files are called beside a function's code, by variable. */
export function fileNames({ assets = {}, files = {} }: FunctionDefinition): Record<string, string> {
  return {
    ...Object.fromEntries(Object.keys(assets).map((variable) => [variable, `${variable}.mjs`])),
    ...Object.fromEntries(Object.entries(files).map(([variable, file]) => [variable, basename(file)])),
  };
}

export const runnerPaths = "/v1/runner/";
export const rateLimits = {
  users: {
    perFiveMinutes: 3000,
    reason: "by address: ten a second is more than anyone's tools ask; without a key all of them end in 401",
  },
  runners: {
    perFiveMinutes: 6000,
    reason:
      "by token, because sandboxes share the provider's addresses: a runner sends four batches a second",
  },
} as const satisfies Record<string, RateLimit>;

const send = ["sqs:SendMessage"] as const;
const receive = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"] as const;
/** Lists are read from an index, and their items from the table. */
const list = ["dynamodb:Query", "dynamodb:BatchGetItem"] as const;
const readAndChange = ["dynamodb:GetItem", "dynamodb:UpdateItem"] as const;

export const topology = {
  table: {
    Table: {
      fields: {
        pk: "string",
        sk: "string",
        owner: "string",
        ownedAt: "string",
        dueShard: "string",
        dueAt: "number",
      },
      primaryIndex: { hash: "pk", range: "sk" },
      indexes: {
        // Only what their readers need: a write that changes nothing of it does not touch the index.
        owner: { hash: "owner", range: "ownedAt", projection: ["status", "sessionKey", "deletedAt"] },
        due: { hash: "dueShard", range: "dueAt", projection: ["userId"] },
      },
      ttlField: "ttl",
    },
  },
  queues: {
    WorkQueue: {
      delayMs: 0,
      visibilityTimeoutMs: hiddenFor.turns * workerTimeoutMs,
      maxReceives: 5,
      retentionMs: 4 * day,
      deadLetterRetentionMs: 14 * day,
    },
    TimerQueue: {
      delayMs: 0,
      visibilityTimeoutMs: hiddenFor.turns * timerTimeoutMs,
      maxReceives: 10,
      retentionMs: 4 * day,
      deadLetterRetentionMs: 14 * day,
    },
    /** Apart from the work: a receiver that hangs holds up other webhooks at most, never a turn. */
    WebhookQueue: {
      delayMs: 0,
      visibilityTimeoutMs: hiddenFor.webhooks * webhookTimeoutMs,
      maxReceives: 3,
      retentionMs: 4 * day,
      deadLetterRetentionMs: 14 * day,
    },
  },
  functions: {
    Api: {
      handler: "functions/api/handler.handler",
      timeoutMs: 15 * minute,
      memoryMb: 512,
      http: "stream",
      environment: [...common, ...provider, "CONCIERGE_DEFAULT_AGENT", "CONCIERGE_ADMIN_USER_ID"],
      secrets: ["AdminApiKey", "SealingKey"],
      files: {
        SWAGGER_UI_CSS_FILE: "swagger-ui-dist/swagger-ui.css",
        SWAGGER_UI_JS_FILE: "swagger-ui-dist/swagger-ui-bundle.js",
      },
      grants: [
        {
          on: "Table",
          actions: [...readAndChange, "dynamodb:PutItem", "dynamodb:DeleteItem", ...list],
        },
        { on: "Table/index/owner", actions: ["dynamodb:Query"] },
        { on: "Table/index/due", actions: ["dynamodb:Query"] },
        { on: "WorkQueue", actions: send },
        { on: "TimerQueue", actions: send },
        { on: "WebhookQueue", actions: send },
      ],
    },
    Worker: {
      handler: "functions/worker.handler",
      timeoutMs: workerTimeoutMs,
      memoryMb: 512,
      sources: [
        { queue: "WorkQueue", batchSize: 1, maxConcurrency: workerConcurrency, partialResponses: true },
      ],
      environment: [...common, ...provider, ...agentKeys, "CONCIERGE_URL"],
      secrets: ["SealingKey"],
      grants: [
        {
          on: "Table",
          actions: [...readAndChange, "dynamodb:PutItem", "dynamodb:DeleteItem", ...list],
        },
        { on: "Table/index/owner", actions: ["dynamodb:Query"] },
        { on: "Table/index/due", actions: ["dynamodb:Query"] },
        { on: "WorkQueue", actions: [...receive, ...send] },
        { on: "TimerQueue", actions: send },
        { on: "WebhookQueue", actions: send },
      ],
      assets: { RUNNER_FILE: "packages/runner/main.ts" },
      reserved: {
        concurrency: workerConcurrency,
        reason: "each may have one create under way: 20 of 2 vCPU, where the plan gives 200 vCPU a minute",
      },
      feedsItself: "a turn that gets no sandbox yet sends itself on, every 20 s until its deadline",
    },
    Timer: {
      handler: "functions/timer.handler",
      timeoutMs: timerTimeoutMs,
      memoryMb: 512,
      sources: [
        { queue: "TimerQueue", batchSize: 10, maxConcurrency: timerConcurrency, partialResponses: true },
      ],
      environment: [...common, ...provider],
      secrets: ["SealingKey"],
      grants: [
        { on: "Table", actions: readAndChange },
        { on: "WorkQueue", actions: send },
        { on: "TimerQueue", actions: [...receive, ...send] },
        { on: "WebhookQueue", actions: send },
      ],
      reserved: {
        concurrency: timerConcurrency,
        reason:
          "stops and probes at the provider, 200 at once; and no load on the api delays what ends turns",
      },
      feedsItself: "a timer is at most 900 s of delay: a longer one is sent on until its time has come",
    },
    Webhook: {
      handler: "functions/webhook.handler",
      timeoutMs: webhookTimeoutMs,
      memoryMb: 256,
      sources: [
        {
          queue: "WebhookQueue",
          batchSize: 10,
          maxConcurrency: webhookConcurrency,
          partialResponses: true,
        },
      ],
      environment: ["CONCIERGE_STAGE", "CONCIERGE_ALLOW_PRIVATE_HOSTS"],
      secrets: ["SealingKey"],
      grants: [
        { on: "Table", actions: readAndChange },
        { on: "WebhookQueue", actions: [...receive, ...send] },
      ],
      reserved: {
        concurrency: webhookConcurrency,
        reason: "100 receivers at once; however slow they are, they take no function from a turn",
      },
      feedsItself: "a webhook that failed sends itself on, later and later",
    },
    Reaper: {
      handler: "functions/reaper.handler",
      timeoutMs: minute,
      memoryMb: 512,
      scheduleEveryMs: minute,
      environment: [...common, ...provider],
      secrets: ["SealingKey"],
      grants: [
        {
          on: "Table",
          actions: [...readAndChange, "dynamodb:PutItem", "dynamodb:DeleteItem", ...list],
        },
        { on: "Table/index/owner", actions: ["dynamodb:Query"] },
        { on: "Table/index/due", actions: ["dynamodb:Query"] },
        { on: "WorkQueue", actions: send },
        { on: "TimerQueue", actions: send },
        { on: "WebhookQueue", actions: send },
      ],
      reserved: { concurrency: 1, reason: "one sweep at a time lists what the provider has" },
    },
  },
} as const satisfies Topology;
