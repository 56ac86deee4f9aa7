/**
 * The resources of Concierge as plain data, without IaC imports. The local stack (packages/dev) and the stack on AWS
 * (sst.config.ts) are built from it. A resource's key is its name in `Resource`.
 */

import { basename } from "node:path";

export interface Index {
  hash: string;
  range: string;
}

export interface SecondaryIndex extends Index {
  /** Projected attributes beside the keys. They cannot be changed on a deployed index: see docs/operations.md. */
  projection: "all" | readonly string[];
}

export interface Table {
  fields: Record<string, "string" | "number">;
  primaryIndex: Index;
  indexes: Record<string, SecondaryIndex>;
  ttlField: string;
}

export interface Queue {
  /** Delay of messages without their own. */
  delayMs: number;
  /** When a message that was received and not deleted becomes visible again. */
  visibilityTimeoutMs: number;
  /** Receives before a message moves to the dead-letter queue, `<name>Dlq`. */
  maxReceives: number;
  retentionMs: number;
  /** Longer than the queue's, because a message keeps its age when it moves. */
  deadLetterRetentionMs: number;
}

export interface QueueSource {
  queue: string;
  batchSize: number;
  /** Concurrent invocations over all processes of the function. */
  maxConcurrency: number;
  /** The handler returns `{batchItemFailures}`; only those are retried. */
  partialResponses: boolean;
}

/** Actions that a function's role may do on a resource (`Table/index/owner` is an index). */
export interface Grant {
  on: string;
  actions: readonly string[];
}

export interface FunctionDefinition {
  /** `path/to/module.export`, from the repository's root, without the file extension. */
  handler: string;
  timeoutMs: number;
  memoryMb: number;
  /** Has a function URL. `stream`: with response streaming. */
  http?: "stream";
  /** Serves only paths under this one. CloudFront, or the local front, sends it those requests and no others. */
  path?: string;
  sources?: readonly QueueSource[];
  scheduleEveryMs?: number;
  /** Variables passed on from the stack's environment, if they are set. */
  environment: readonly string[];
  /** Secrets in `Resource`, by name. */
  secrets: readonly string[];
  grants: readonly Grant[];
  /** Modules bundled to one file each. The variable holds the file's path. */
  assets?: Readonly<Record<string, string>>;
  /** Files of packages, copied as they are. The variable holds the file's path. */
  files?: Readonly<Record<string, string>>;
  /** On AWS: the function's reserved concurrency, which is also its limit. */
  reserved?: { concurrency: number; reason: string };
  /** On AWS: why Lambda's loop detection is off, which would stop messages to its own queue after 16. */
  feedsItself?: string;
}

/** A variable whose value is a secret on AWS. */
export interface SecretVariable {
  secret: string;
  /** Without the secret the variable is absent, and the code that needs it reports that. */
  isOptional?: boolean;
}

/** Rate limits per caller, on stages with CloudFront. */
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
const runnerConcurrency = 100;

/**
 * Visibility timeouts in multiples of the function's timeout. AWS recommends six, for messages that wait inside Lambda
 * while the function is throttled; here an event source never needs more concurrency than its function has. A lost
 * message is redelivered only after this time and a turn waits for it, hence two. Nothing waits for a webhook.
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
  "SANDBOX_HOSTS",
] as const;
/** Only where requests come in: these limit what users ask for. */
const userLimits = [
  "USER_MAX_DURATION_MS",
  "USER_MAX_INACTIVITY_MS",
  "USER_MAX_COST_USD",
  "USER_MAX_COST_USD_PER_DAY",
  "USER_MAX_CONCURRENT_TASKS",
  "USER_MAX_QUEUED_TASKS",
  "USER_MAX_STREAMS",
  "USER_MAX_STREAMS_PER_KEY",
  "USER_REQUESTS_PER_MINUTE",
  "USER_REQUESTS_PER_MINUTE_PER_KEY",
  "TASK_RETENTION_DAYS",
  "AUDIT_RETENTION_DAYS",
] as const;
const flags = [
  "ENABLE_DB_BACKED_STOP",
  "ENABLE_CANCELLATION_CHECKS",
  "ENABLE_HEALTH_PROBE",
  "ENABLE_INACTIVITY_TIMEOUT",
  "ENABLE_AUTHORITATIVE_TIMEOUT",
] as const;
/** Where traces and metrics are sent, if anywhere. The headers may have a credential, so they are a secret. */
const telemetry = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"] as const;
const common = [
  "CONCIERGE_STAGE",
  "CONCIERGE_ALLOW_PRIVATE_HOSTS",
  ...limits,
  ...flags,
  ...telemetry,
] as const;
const provider = ["VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID"] as const;

/** Only the worker has the agents' keys. */
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
  OTEL_EXPORTER_OTLP_HEADERS: { secret: "OtlpHeaders", isOptional: true },
};

/** Every `*` in a policy's resources, with the reason why AWS allows no narrower one. */
export interface Wildcard {
  actions: readonly string[];
  resource: RegExp;
  reason: string;
}

/** Every function may write to its own log group, in addition to its grants. */
export const logStreams = {
  actions: ["logs:CreateLogStream", "logs:PutLogEvents"],
  resource: /:log-group:\/aws\/lambda\/concierge-[a-z0-9-]+-[A-Z][A-Za-z]+:\*$/,
  reason: "Lambda names log streams when it starts a process",
} as const satisfies Wildcard;

/**
 * Items that functions may add but not change or delete, by the start of their partition key. Denied to every function's
 * role. DynamoDB cannot deny that a put replaces an item; the code's condition does that.
 */
export const appendOnly = {
  table: "Table",
  partitions: "AUDIT#*",
  actions: ["dynamodb:UpdateItem", "dynamodb:DeleteItem"],
} as const;

export const wildcards: readonly Wildcard[] = [logStreams];

export const platform = { runtime: "nodejs24.x", architecture: "arm64" } as const;

/**
 * How `npm run build` (packages/bundler) bundles functions: each to `<directory>/<name>`, with its assets and files beside
 * the code. On AWS, variables with paths are relative to that directory.
 */
export const bundling = { directory: "dist", handler: "bundle.handler", target: "es2024" } as const;

/** The names of a function's assets and files beside its code, by variable. */
export function fileNames({ assets = {}, files = {} }: FunctionDefinition): Record<string, string> {
  return {
    ...Object.fromEntries(Object.keys(assets).map((variable) => [variable, `${variable}.mjs`])),
    ...Object.fromEntries(Object.entries(files).map(([variable, file]) => [variable, basename(file)])),
  };
}

export const runnerPaths = "/v1/runner/";
export const rateLimits = {
  keys: {
    perFiveMinutes: 6000,
    reason:
      "by key: more than twenty a second is not normal use; the api itself limits each user more exactly",
  },
  addresses: {
    perFiveMinutes: 15_000,
    reason:
      "by address, with a key: a company may share one, but one that tries a new key each time is stopped",
  },
  anonymous: {
    perFiveMinutes: 3000,
    reason: "by address, without a key: all of them get a 401 or a page",
  },
  runners: {
    perFiveMinutes: 6000,
    reason:
      "by token, because sandboxes share the provider's addresses: a runner sends four batches a second",
  },
} as const satisfies Record<string, RateLimit>;

const send = ["sqs:SendMessage"] as const;
const receive = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"] as const;
/** Lists read an index, then the items from the table. */
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
        // Only what readers of the index need, so that other writes do not touch it.
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
    /** A separate queue, so that a receiver that hangs delays other webhooks but never a turn. */
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
      environment: [
        ...common,
        ...userLimits,
        ...provider,
        "CONCIERGE_DEFAULT_AGENT",
        "CONCIERGE_ADMIN_USER_ID",
        "CONCIERGE_SINGLE_USER",
        "CONCIERGE_ALLOWED_ORIGINS",
      ],
      secrets: ["AdminApiKey", "SealingKey"],
      files: { API_EXPLORER_FILE: "openapi-explorer/dist/browser/openapi-explorer.min.js" },
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
    /** Separate from the users' api: however many requests users send, runners' posts find a free function. */
    ApiRunner: {
      handler: "functions/api/runner-handler.handler",
      timeoutMs: minute,
      memoryMb: 512,
      http: "stream",
      path: "/v1/runner",
      environment: [...common, ...userLimits, ...provider],
      secrets: ["SealingKey"],
      grants: [
        { on: "Table", actions: [...readAndChange, "dynamodb:PutItem"] },
        { on: "WorkQueue", actions: send },
        { on: "TimerQueue", actions: send },
      ],
      reserved: {
        concurrency: runnerConcurrency,
        reason: "100 runners that each wait for one answer; requests of users use none of it",
      },
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
        reason: "each may run one create: 20 with 2 vCPU each, and the plan allows 200 vCPU a minute",
      },
      feedsItself: "a turn without a sandbox is queued again every 20 s until its deadline",
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
        { on: "Table", actions: [...readAndChange, "dynamodb:Query"] },
        { on: "WorkQueue", actions: send },
        { on: "TimerQueue", actions: [...receive, ...send] },
        { on: "WebhookQueue", actions: send },
      ],
      reserved: {
        concurrency: timerConcurrency,
        reason: "200 concurrent stops and probes; load on the api does not delay them",
      },
      feedsItself: "SQS delays at most 900 s, so a longer timer is sent again until its time has come",
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
      environment: ["CONCIERGE_STAGE", "CONCIERGE_ALLOW_PRIVATE_HOSTS", ...telemetry],
      secrets: ["SealingKey"],
      grants: [
        { on: "Table", actions: readAndChange },
        { on: "WebhookQueue", actions: [...receive, ...send] },
      ],
      reserved: {
        concurrency: webhookConcurrency,
        reason: "100 concurrent receivers; slow ones use no concurrency that turns need",
      },
      feedsItself: "a failed webhook is sent again with increasing delays",
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
      reserved: { concurrency: 1, reason: "one reaper pass at a time" },
    },
  },
} as const satisfies Topology;
