import * as z from "zod/mini";
import { flagVariableSchema } from "./flags/schema.ts";
import { holdsMax, type UserLimits } from "./users/schema.ts";

const minute = 60_000;
const day = 24 * 60 * minute;

interface Variable<Value, Fallback> {
  schema: () => z.ZodMiniType<Value>;
  fallback: Fallback;
}

/** A schema is created only if its variable is set: most are not, and every cold start parses these. */
const variables = {
  CONCIERGE_STAGE: variable(
    () => text(/^[a-z0-9-]{1,20}$/, "a stage name of at most 20 characters from a-z, 0-9 and -"),
    "dev",
  ),
  CONCIERGE_DEFAULT_AGENT: variable(
    () => z.enum(["claude", "codex", "cursor", "shell"], { error: "takes claude, codex, cursor or shell" }),
    "claude",
  ),
  CONCIERGE_ADMIN_USER_ID: variable(() => text(/^[A-Za-z0-9._@-]{1,64}$/, "a user id"), "admin"),
  CONCIERGE_API_KEY: optional(() =>
    text(/^[\x21-\x7e]{16,256}$/, "16 to 256 printable characters without spaces"),
  ),
  CONCIERGE_URL: optional(url),
  CONCIERGE_ALLOW_PRIVATE_HOSTS: variable(
    () => z.enum(["true", "false"], { error: "takes true or false" }),
    "false",
  ),
  CONCIERGE_SINGLE_USER: variable(() => z.enum(["true", "false"], { error: "takes true or false" }), "false"),
  CONCIERGE_ALLOWED_ORIGINS: optional(() =>
    text(
      /^https?:\/\/[A-Za-z0-9.:[\]-]+(,https?:\/\/[A-Za-z0-9.:[\]-]+){0,19}$/,
      "up to 20 origins such as https://app.example.com, separated by commas",
    ),
  ),
  AGENT_INACTIVITY_TIMEOUT_MS: milliseconds(minute),
  AGENT_MAX_WAIT_TIME_MS: milliseconds(5 * minute),
  AGENT_MAX_OUTPUT_BYTES: variable(() => whole(1024, 1024 ** 3, "bytes"), 100 * 1024 * 1024),
  SESSION_IDLE_TIMEOUT_MS: milliseconds(30 * minute),
  POOL_MAX_SANDBOXES: variable(() => whole(1, 2000, "sandboxes"), 100),
  POOL_MAX_PER_USER: optional(() => whole(1, 2000, "sandboxes")),
  USER_MAX_DURATION_MS: milliseconds(24 * 60 * minute),
  USER_MAX_INACTIVITY_MS: milliseconds(24 * 60 * minute),
  USER_MAX_COST_USD: optional(() => dollars(10_000)),
  USER_MAX_COST_USD_PER_DAY: optional(() => dollars(1_000_000)),
  USER_MAX_CONCURRENT_TASKS: variable(() => whole(0, holdsMax, "tasks"), 200),
  USER_MAX_QUEUED_TASKS: variable(() => whole(0, holdsMax, "tasks"), 100),
  USER_MAX_STREAMS: variable(() => whole(0, holdsMax, "streams"), 100),
  USER_MAX_STREAMS_PER_KEY: variable(() => whole(0, holdsMax, "streams"), 50),
  USER_REQUESTS_PER_MINUTE: variable(() => whole(0, 1_000_000, "requests"), 2400),
  USER_REQUESTS_PER_MINUTE_PER_KEY: variable(() => whole(0, 1_000_000, "requests"), 1200),
  TASK_RETENTION_DAYS: variable(() => whole(1, 3650, "days"), 30),
  AUDIT_RETENTION_DAYS: variable(() => whole(1, 3650, "days"), 365),
  POOL_WARM_TARGET: variable(() => whole(0, 200, "sandboxes"), 0),
  SANDBOX_MAX_LIFE_MS: variable(() => whole(60_000, 24 * 60 * minute, "milliseconds"), 5 * 60 * minute),
  SANDBOX_AGENTS: optional(() =>
    text(/^(claude|codex)(,(claude|codex))*$/, "claude, codex, or both separated by a comma"),
  ),
  SANDBOX_SETUP: optional(() => text(/^[^\0]{1,4000}$/s, "a shell script of at most 4000 characters")),
  SANDBOX_HOSTS: variable(
    () => text(/^[A-Za-z0-9.*:-]+(,[A-Za-z0-9.*:-]+)*$/, "host names separated by commas, or *"),
    "*",
  ),
  ENABLE_DB_BACKED_STOP: flag(),
  ENABLE_CANCELLATION_CHECKS: flag(),
  ENABLE_HEALTH_PROBE: flag(),
  ENABLE_INACTIVITY_TIMEOUT: flag(),
  ENABLE_AUTHORITATIVE_TIMEOUT: flag(),
  /** Passed on to the agents. Checked here, so that a wrong value is reported at the start. */
  ANTHROPIC_BASE_URL: optional(url),
  OPENAI_BASE_URL: optional(url),
  VERCEL_SANDBOX_URL: optional(url),
};

type Values = {
  [Name in keyof typeof variables]: (typeof variables)[Name] extends Variable<infer Value, infer Fallback>
    ? Value | Fallback
    : never;
};

type Environment = Readonly<Record<string, string | undefined>>;

export type Config = Readonly<ReturnType<typeof parseConfig>>;

export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/**
 * Reads the environment once. A value that does not parse throws one line that names the variable and what it takes.
 */
export function parseConfig(environment: Environment) {
  const entries = Object.entries(variables).map(([name, { schema, fallback }]) => {
    const given = environment[name];
    return [name, given === undefined || given === "" ? fallback : parse(name, schema(), given)];
  });
  const env = Object.fromEntries(entries) as Values;
  return {
    stage: env.CONCIERGE_STAGE,
    defaultAgent: env.CONCIERGE_DEFAULT_AGENT,
    adminUserId: env.CONCIERGE_ADMIN_USER_ID,
    url: env.CONCIERGE_URL,
    allowPrivateHosts: env.CONCIERGE_ALLOW_PRIVATE_HOSTS === "true",
    /** Sandboxes do not separate users here, so only the admin's user may have keys. */
    isSingleUser: env.CONCIERGE_SINGLE_USER === "true",
    /** Origins of pages that may use the api from a browser. */
    allowedOrigins: env.CONCIERGE_ALLOWED_ORIGINS?.split(",") ?? [],
    inactivityMs: env.AGENT_INACTIVITY_TIMEOUT_MS,
    maxDurationMs: env.AGENT_MAX_WAIT_TIME_MS,
    maxOutputBytes: env.AGENT_MAX_OUTPUT_BYTES,
    sessionIdleMs: env.SESSION_IDLE_TIMEOUT_MS,
    poolMax: env.POOL_MAX_SANDBOXES,
    poolMaxPerUser: env.POOL_MAX_PER_USER ?? Math.max(Math.floor(env.POOL_MAX_SANDBOXES / 4), 1),
    /** What a user may use, unless an admin set something else for that user. */
    userLimits: {
      maxDurationMs: env.USER_MAX_DURATION_MS,
      maxInactivityMs: env.USER_MAX_INACTIVITY_MS,
      maxCostUsd: env.USER_MAX_COST_USD ?? null,
      maxCostUsdPerDay: env.USER_MAX_COST_USD_PER_DAY ?? null,
      maxConcurrentTasks: env.USER_MAX_CONCURRENT_TASKS,
      maxQueuedTasks: env.USER_MAX_QUEUED_TASKS,
      maxStreams: env.USER_MAX_STREAMS,
      maxStreamsPerKey: env.USER_MAX_STREAMS_PER_KEY,
      requestsPerMinute: env.USER_REQUESTS_PER_MINUTE,
      requestsPerMinutePerKey: env.USER_REQUESTS_PER_MINUTE_PER_KEY,
    } satisfies UserLimits as UserLimits,
    taskRetentionMs: env.TASK_RETENTION_DAYS * day,
    auditRetentionMs: env.AUDIT_RETENTION_DAYS * day,
    warmTarget: env.POOL_WARM_TARGET,
    /** The longest the provider's plan lets a sandbox live. */
    sandboxMaxMs: env.SANDBOX_MAX_LIFE_MS,
    /** Agents to install in every sandbox. */
    sandboxAgents: env.SANDBOX_AGENTS?.split(",") ?? [],
    /** The script that installs what every sandbox needs. */
    setup: env.SANDBOX_SETUP,
    /** The hosts that a sandbox may reach while no turn runs in it. */
    sandboxHosts: env.SANDBOX_HOSTS.split(","),
    flags: {
      ENABLE_DB_BACKED_STOP: env.ENABLE_DB_BACKED_STOP,
      ENABLE_CANCELLATION_CHECKS: env.ENABLE_CANCELLATION_CHECKS,
      ENABLE_HEALTH_PROBE: env.ENABLE_HEALTH_PROBE,
      ENABLE_INACTIVITY_TIMEOUT: env.ENABLE_INACTIVITY_TIMEOUT,
      ENABLE_AUTHORITATIVE_TIMEOUT: env.ENABLE_AUTHORITATIVE_TIMEOUT,
    },
    sandboxUrl: env.VERCEL_SANDBOX_URL,
  };
}

/** A variable without a default. */
export function required(environment: Environment, name: string): string {
  const value = environment[name];
  if (!value) throw new ConfigError(`${name} must be set`);
  return value;
}

function parse(name: string, schema: z.ZodMiniType, given: string): unknown {
  const parsed = schema.safeParse(given);
  if (!parsed.success) throw new ConfigError(`${name} ${parsed.error.issues[0]?.message}`);
  return parsed.data;
}

function variable<Value, const Fallback>(
  schema: () => z.ZodMiniType<Value>,
  fallback: Fallback,
): Variable<Value, Fallback> {
  return { schema, fallback };
}

function optional<Value>(schema: () => z.ZodMiniType<Value>): Variable<Value, undefined> {
  return { schema, fallback: undefined };
}

function flag() {
  return variable(() => flagVariableSchema, "on");
}

function milliseconds(fallback: number) {
  return variable(() => whole(1000, 24 * 60 * minute, "milliseconds"), fallback);
}

function whole(min: number, max: number, unit: string) {
  const error = `takes a whole number of ${unit} from ${min} to ${max}`;
  return z
    .pipe(z.string().check(z.regex(/^\d{1,15}$/, { error })), z.transform(Number))
    .check(z.refine((value) => value >= min && value <= max, { error }));
}

function dollars(max: number) {
  const error = `takes a number of dollars from 0 to ${max}`;
  return z
    .pipe(z.string().check(z.regex(/^\d{1,7}(\.\d{1,6})?$/, { error })), z.transform(Number))
    .check(z.refine((value) => value <= max, { error }));
}

function text(pattern: RegExp, what: string) {
  return z.string().check(z.regex(pattern, { error: `takes ${what}` }));
}

function url() {
  return z.url({ protocol: /^https?$/, error: "takes an http or https URL" });
}
