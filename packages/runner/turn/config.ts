import { dirname, resolve } from "node:path";
import {
  conversationIdPattern,
  type LaunchConfig,
  type LeftoverPolicy,
  leftoverPolicies,
  protocolVersion,
  type RepoConfig,
  type Timings,
  variables,
} from "@concierge/protocol";

export const defaultTimings: Timings = {
  batchMs: 250,
  beatMs: 2_000,
  waitMs: 100,
  requestTimeoutMs: 10_000,
  killGraceMs: 2_000,
  pipeGraceMs: 500,
  giveUpMs: 60_000,
  pushMs: 30_000,
  finalizeMs: 45_000,
  stateMs: 5_000,
};

export const defaultActivityCapMs = 15 * 60_000;

export const defaultMaxSpoolBytes = 64 * 1024 * 1024;

/** The launch configuration with its defaults filled in. */
export type TurnConfig = LaunchConfig &
  Required<Pick<LaunchConfig, "runDir" | "maxSpoolBytes" | "agentEnv" | "activityCapMs">> & {
    timings: Timings;
  };

/** The values to mask. The address of a model is useful in the output and not a secret. */
export function secretsOf({ token, env, agentEnv }: TurnConfig): string[] {
  const agentSecrets = Object.entries(agentEnv).filter(([name]) => !name.endsWith("_BASE_URL"));
  return [token, ...Object.values(env), ...agentSecrets.map(([, value]) => value)];
}

/** Throws an `Error` that names the field. It never shows a value, because its message is logged. */
export function parseLaunchConfig(json: string | undefined): TurnConfig {
  if (json === undefined) throw new Error(`${variables.launchConfig} is not set`);
  const fields = parseObject(json);
  if (fields.protocol !== protocolVersion) throw invalid("protocol", `must be ${protocolVersion}`);
  return {
    protocol: protocolVersion,
    taskId: headerText(fields, "taskId"),
    turn: positive(fields, "turn"),
    url: httpUrl(fields, "url"),
    token: headerText(fields, "token"),
    ...(fields.requestId !== undefined && { requestId: headerText(fields, "requestId") }),
    ...(fields.traceparent !== undefined && { traceparent: headerText(fields, "traceparent") }),
    agent: text(fields, "agent"),
    runDir: resolve(text({ runDir: dirname(process.argv[1] ?? ""), ...fields }, "runDir")),
    cwd: resolve(text(fields, "cwd")),
    maxDurationMs: positive(fields, "maxDurationMs"),
    inactivityMs: positive(fields, "inactivityMs"),
    activityCapMs: positive({ activityCapMs: defaultActivityCapMs, ...fields }, "activityCapMs"),
    maxOutputBytes: positive(fields, "maxOutputBytes"),
    maxSpoolBytes: positive({ maxSpoolBytes: defaultMaxSpoolBytes, ...fields }, "maxSpoolBytes"),
    env: environment(fields.env, "env"),
    agentEnv: environment(fields.agentEnv ?? {}, "agentEnv"),
    ...(fields.conversationId !== undefined && { conversationId: conversationId(fields) }),
    ...(fields.repo !== undefined && { repo: repository(fields.repo) }),
    ...(fields.leftovers !== undefined && { leftovers: leftoverPolicy(fields.leftovers) }),
    timings: timings(fields.timings),
  };
}

type Fields = Record<string, unknown>;

function invalid(name: string, problem: string): Error {
  return new Error(`${variables.launchConfig}.${name} ${problem}`);
}

function parseObject(json: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    // The message of JSON.parse quotes its input, which holds the token.
    throw new Error(`${variables.launchConfig} is not JSON`);
  }
  if (!isFields(value)) throw new Error(`${variables.launchConfig} must be an object`);
  return value;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === "string" && value !== "" && !value.includes("\0")) return value;
  throw invalid(name, "must be a non-empty string");
}

function headerText(fields: Fields, name: string): string {
  const value = text(fields, name);
  if (/^[\x21-\x7e]+$/.test(value)) return value;
  throw invalid(name, "must be a valid header value");
}

function httpUrl(fields: Fields, name: string): string {
  const value = text(fields, name);
  if (/^https?:\/\//.test(value) && URL.canParse(value)) return value.replace(/\/+$/, "");
  throw invalid(name, "must be an http or https URL");
}

function positive(fields: Fields, name: string): number {
  const value = fields[name];
  if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value;
  throw invalid(name, "must be a positive integer");
}

function conversationId(fields: Fields): string {
  const value = text(fields, "conversationId");
  if (conversationIdPattern.test(value)) return value;
  throw invalid("conversationId", "must be a conversation id");
}

function environment(value: unknown, field: string): Record<string, string> {
  if (!isFields(value)) throw invalid(field, "must be an object");
  const env: Record<string, string> = {};
  for (const [name, entry] of Object.entries(value)) {
    if (!/^[^=\0]+$/.test(name) || typeof entry !== "string" || entry.includes("\0"))
      throw invalid(`${field}.${name}`, "must be a valid environment variable");
    env[name] = entry;
  }
  return env;
}

function leftoverPolicy(value: unknown): LeftoverPolicy {
  const policy = leftoverPolicies.find((one) => one === value);
  if (policy !== undefined) return policy;
  throw invalid("leftovers", `must be ${leftoverPolicies.join(" or ")}`);
}

function repository(value: unknown): RepoConfig {
  if (!isFields(value)) throw invalid("repo", "must be an object");
  const fields = Object.fromEntries(Object.entries(value).map(([name, entry]) => [`repo.${name}`, entry]));
  const { push, message } = value;
  if (typeof push !== "boolean") throw invalid("repo.push", "must be true or false");
  if (typeof message !== "string") throw invalid("repo.message", "must be a string");
  return {
    url: repositoryUrl(fields, "repo.url"),
    ...(fields["repo.baseBranch"] !== undefined && { baseBranch: branchName(fields, "repo.baseBranch") }),
    branch: branchName(fields, "repo.branch"),
    push,
    message,
  };
}

function repositoryUrl(fields: Fields, name: string): string {
  const value = httpUrl(fields, name);
  const { username, password } = new URL(value);
  if (username === "" && password === "") return value;
  throw invalid(name, "must not contain credentials");
}

/** Refuses what git would take for an option or a refspec. Git itself refuses other bad names. */
function branchName(fields: Fields, name: string): string {
  const value = text(fields, name);
  if (!/^-|[\s:]/.test(value)) return value;
  throw invalid(name, "must be a branch name");
}

function timings(value: unknown): Timings {
  if (value === undefined) return defaultTimings;
  if (!isFields(value)) throw invalid("timings", "must be an object");
  const result = { ...defaultTimings };
  for (const name of Object.keys(value)) {
    if (!isTiming(name)) throw invalid("timings", `has no ${name}`);
    result[name] = positive(value, name);
  }
  return result;
}

function isTiming(name: string): name is keyof Timings {
  return Object.hasOwn(defaultTimings, name);
}
