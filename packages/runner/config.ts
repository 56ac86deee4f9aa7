import { CONVERSATION_ID } from "./agents/json.ts";
import { RUNNER_PROTOCOL_VERSION } from "./protocol.ts";

const { resolve } = process.getBuiltinModule("node:path");

/** Holds the launch configuration as JSON. Linux takes no variable over 128 KB: keep `env` well below that. */
export const CONFIG_VARIABLE = "CONCIERGE_TURN";

export interface LaunchConfig {
  protocol: typeof RUNNER_PROTOCOL_VERSION;
  taskId: string;
  turn: number;
  /** Where Concierge answers, without a path of its own. */
  url: string;
  token: string;
  /** What Concierge's logs call all that belongs to the request this turn was begun by. */
  requestId?: string;
  agent: string;
  /** Private to this turn. Like `cwd`, from where the runner is launched on, if it is not absolute. */
  runDir: string;
  /** Where the agent works. With `repo` it is the clone. */
  cwd: string;
  maxDurationMs: number;
  inactivityMs: number;
  /** How long an agent at work, as one that waits for its model or a tool, may print nothing. */
  activityCapMs?: number;
  maxOutputBytes: number;
  /** How much undelivered output waits on disk before the agent is made to wait instead. */
  maxSpoolBytes?: number;
  env: Record<string, string>;
  /** For the agent's own process alone, as its key and where its model is. */
  agentEnv?: Record<string, string>;
  /** The conversation to go on with, as an earlier turn has reported it. */
  conversationId?: string;
  repo?: RepoConfig;
  timings?: Partial<Timings>;
}

export interface RepoConfig {
  /** Without a credential in it. */
  url: string;
  /** What `branch` starts from where the remote has no such branch; the remote's default branch where absent. */
  baseBranch?: string;
  branch: string;
  push: boolean;
  /** Of the commit of what the agent did not commit. */
  message: string;
}

export interface Timings {
  /** How long a batch collects bytes; the turn's first one goes out at once. */
  batchMs: number;
  beatMs: number;
  /** The longest pause after a `wait`; the first ones in a row are shorter. */
  waitMs: number;
  requestTimeoutMs: number;
  /** Between SIGTERM and SIGKILL. */
  killGraceMs: number;
  /** How long pipes that a background process holds are still read after the agent's exit. */
  pipeGraceMs: number;
  /** How long after the deadline Concierge is still tried. */
  giveUpMs: number;
  /** How long one push may take, and how long after the grant its outcome is asked for. */
  pushMs: number;
  finalizeMs: number;
  /** The longest that `state.json` is left as it is. */
  stateMs: number;
}

export const DEFAULT_TIMINGS: Timings = {
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

export const DEFAULT_ACTIVITY_CAP_MS = 15 * 60_000;

export const DEFAULT_MAX_SPOOL_BYTES = 64 * 1024 * 1024;

export type TurnConfig = Omit<LaunchConfig, "timings" | "maxSpoolBytes" | "agentEnv" | "activityCapMs"> & {
  activityCapMs: number;
  agentEnv: Record<string, string>;
  timings: Timings;
  maxSpoolBytes: number;
};

/** What must not be shown. Where a model is reached is no secret, and is worth reading in the output. */
export function secretsOf({ token, env, agentEnv }: TurnConfig): string[] {
  const ofAgent = Object.entries(agentEnv).filter(([name]) => !name.endsWith("_BASE_URL"));
  return [token, ...Object.values(env), ...ofAgent.map(([, value]) => value)];
}

/** Throws an `Error` that names the field and never shows a value: the text goes to a log. */
export function parseLaunchConfig(json: string | undefined): TurnConfig {
  if (json === undefined) throw new Error(`${CONFIG_VARIABLE} is not set`);
  const fields = parseObject(json);
  if (fields.protocol !== RUNNER_PROTOCOL_VERSION) {
    throw new Error(`${CONFIG_VARIABLE}.protocol must be ${RUNNER_PROTOCOL_VERSION}`);
  }
  return {
    protocol: RUNNER_PROTOCOL_VERSION,
    taskId: headerText(fields, "taskId"),
    turn: positive(fields, "turn"),
    url: httpUrl(fields, "url"),
    token: headerText(fields, "token"),
    ...(fields.requestId !== undefined && { requestId: headerText(fields, "requestId") }),
    agent: text(fields, "agent"),
    runDir: resolve(text(fields, "runDir")),
    cwd: resolve(text(fields, "cwd")),
    maxDurationMs: positive(fields, "maxDurationMs"),
    inactivityMs: positive(fields, "inactivityMs"),
    activityCapMs:
      fields.activityCapMs === undefined ? DEFAULT_ACTIVITY_CAP_MS : positive(fields, "activityCapMs"),
    maxOutputBytes: positive(fields, "maxOutputBytes"),
    maxSpoolBytes:
      fields.maxSpoolBytes === undefined ? DEFAULT_MAX_SPOOL_BYTES : positive(fields, "maxSpoolBytes"),
    env: environment(fields.env, "env"),
    agentEnv: environment(fields.agentEnv ?? {}, "agentEnv"),
    ...(fields.conversationId !== undefined && { conversationId: conversation(fields, "conversationId") }),
    ...(fields.repo !== undefined && { repo: repository(fields.repo) }),
    timings: timings(fields.timings),
  };
}

type Fields = Record<string, unknown>;

function parseObject(json: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    // JSON.parse quotes its input in the message, and the input holds the token.
    throw new Error(`${CONFIG_VARIABLE} is not JSON`);
  }
  if (!isFields(value)) throw new Error(`${CONFIG_VARIABLE} must be an object`);
  return value;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === "string" && value !== "" && !value.includes("\0")) return value;
  throw new Error(`${CONFIG_VARIABLE}.${name} must be a string that is not empty`);
}

function headerText(fields: Fields, name: string): string {
  const value = text(fields, name);
  if (/^[\x21-\x7e]+$/.test(value)) return value;
  throw new Error(`${CONFIG_VARIABLE}.${name} must be fit for a header`);
}

function httpUrl(fields: Fields, name: string): string {
  const value = text(fields, name);
  if (/^https?:\/\//.test(value) && URL.canParse(value)) return value.replace(/\/+$/, "");
  throw new Error(`${CONFIG_VARIABLE}.${name} must be an http or https URL`);
}

function positive(fields: Fields, name: string): number {
  const value = fields[name];
  if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value;
  throw new Error(`${CONFIG_VARIABLE}.${name} must be a whole number above 0`);
}

function conversation(fields: Fields, name: string): string {
  const value = text(fields, name);
  if (CONVERSATION_ID.test(value)) return value;
  throw new Error(`${CONFIG_VARIABLE}.${name} must be a conversation's id`);
}

function environment(value: unknown, field: string): Record<string, string> {
  if (!isFields(value)) throw new Error(`${CONFIG_VARIABLE}.${field} must be an object`);
  const env: Record<string, string> = {};
  for (const [name, entry] of Object.entries(value)) {
    if (!/^[^=\0]+$/.test(name) || typeof entry !== "string" || entry.includes("\0")) {
      throw new Error(
        `${CONFIG_VARIABLE}.${field}.${name} must be a string that can stand in an environment`,
      );
    }
    env[name] = entry;
  }
  return env;
}

function repository(value: unknown): RepoConfig {
  if (!isFields(value)) throw new Error(`${CONFIG_VARIABLE}.repo must be an object`);
  const fields = Object.fromEntries(Object.entries(value).map(([name, entry]) => [`repo.${name}`, entry]));
  const { push, message } = value;
  if (typeof push !== "boolean") throw new Error(`${CONFIG_VARIABLE}.repo.push must be true or false`);
  if (typeof message !== "string") throw new Error(`${CONFIG_VARIABLE}.repo.message must be a string`);
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
  throw new Error(`${CONFIG_VARIABLE}.${name} must hold no credential`);
}

/** What git could take for an option or for more than a name; the rest is git's to refuse. */
function branchName(fields: Fields, name: string): string {
  const value = text(fields, name);
  if (!/^-|[\s:]/.test(value)) return value;
  throw new Error(`${CONFIG_VARIABLE}.${name} must be a branch's name`);
}

function timings(value: unknown): Timings {
  if (value === undefined) return DEFAULT_TIMINGS;
  if (!isFields(value)) throw new Error(`${CONFIG_VARIABLE}.timings must be an object`);
  const result = { ...DEFAULT_TIMINGS };
  for (const name of Object.keys(value)) {
    if (!isTiming(name)) throw new Error(`${CONFIG_VARIABLE}.timings has no ${name}`);
    result[name] = positive(value, name);
  }
  return result;
}

function isTiming(name: string): name is keyof Timings {
  return Object.hasOwn(DEFAULT_TIMINGS, name);
}
