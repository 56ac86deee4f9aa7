import { type ConnectionTarget, createConnection } from "./connection.ts";
import { type GitCredential, RUNNER_PATHS, type RunnerAction } from "./protocol.ts";
import type { Reply } from "./reply.ts";

const MIN_WAIT_MS = 5;
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 2_000;
const MAX_RETRY_AFTER_MS = 5_000;

/**
 * `retry`: it may go well the next time. `rejected`: Concierge itself will never take this post, the two sides disagree
 * about the protocol; no batch is over the size that Concierge takes, so its 413 is one of these.
 */
export type Answer =
  | { kind: "action"; action: RunnerAction }
  | { kind: "granted"; credential: GitCredential | null }
  | { kind: "retry"; afterMs: number }
  | { kind: "rejected"; detail: string };

type Fields = Record<string, unknown>;

export type PostKind = keyof typeof RUNNER_PATHS;

export interface Client {
  /** Opens the connection that the next post goes over: what is sent then has not to wait for it. */
  connect(): void;
  post(kind: PostKind, body: Buffer): Promise<Answer>;
}

export function createClient(target: ConnectionTarget): Client {
  const connection = createConnection(target);
  return {
    connect: connection.open,
    async post(kind, body) {
      try {
        return classify(kind, await connection.post(RUNNER_PATHS[kind], body), target.mark);
      } catch {
        return { kind: "retry", afterMs: 0 };
      }
    },
  };
}

/**
 * Only Concierge's own answer may stop an agent: one that names the turn and, where it refuses, gives a problem's code.
 * Whatever else stands in between (a firewall, a login page, a redirect, an edge that leads elsewhere) may say anything
 * with any status; the post is repeated until the turn's deadline.
 */
export function classify(kind: PostKind, reply: Reply, mark: string): Answer {
  const again: Answer = { kind: "retry", afterMs: retryAfterMs(reply.retryAfter) };
  if (reply.turn !== mark) return again;
  const body = parseObject(reply.body);
  if (body === undefined) return again;
  if (reply.status === 200) return readAnswer(kind, body) ?? again;
  if (typeof body.code !== "string") return again;
  switch (reply.status) {
    // The token has expired, the task is gone, or another turn has its place: nobody waits for this turn any more.
    case 401:
    case 403:
    case 404:
    case 409:
    case 410:
      return { kind: "action", action: "stop" };
    case 400:
    case 405:
    case 413:
    case 415:
      return {
        kind: "rejected",
        detail: `Concierge refused the runner's ${kind} with status ${reply.status} (${body.code})`,
      };
    default:
      return again;
  }
}

function parseObject(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Fields) : undefined;
  } catch {
    return undefined;
  }
}

/** Undefined for what is not an answer to this post. */
function readAnswer(kind: PostKind, value: Fields): Answer | undefined {
  const { action } = value;
  switch (action) {
    case "stop":
    case "wait":
      return { kind: "action", action };
    case "continue":
      return kind === "output" || kind === "beat" ? { kind: "action", action } : undefined;
    case "done":
      return kind === "end" ? { kind: "action", action } : undefined;
    case "go": {
      const credential = readCredential(value.credential);
      const isGrant = (kind === "clone" || kind === "finalize") && credential !== undefined;
      return isGrant ? { kind: "granted", credential } : undefined;
    }
    default:
      return undefined;
  }
}

function readCredential(value: unknown): GitCredential | null | undefined {
  if (value === null) return null;
  if (typeof value !== "object") return undefined;
  if (!("username" in value && "token" in value)) return undefined;
  const { username, token } = value;
  return typeof username === "string" && typeof token === "string" ? { username, token } : undefined;
}

function retryAfterMs(header: string | undefined): number {
  const seconds = Number(header ?? 0);
  return seconds > 0 ? Math.min(seconds * 1000, MAX_RETRY_AFTER_MS) : 0;
}

/** After the nth `wait` in a row: most turns are recorded as running a few milliseconds after their launch. */
export function waitMs(waits: number, maxMs: number): number {
  return Math.min(maxMs, MIN_WAIT_MS * 2 ** (waits - 1));
}

/** After the nth failure in a row: from 100 ms to 2 s, doubling, half of it by chance so that many runners spread out. */
export function backoffMs(failures: number, random: () => number): number {
  const fullMs = Math.min(MAX_BACKOFF_MS, MIN_BACKOFF_MS * 2 ** failures);
  return fullMs / 2 + (fullMs / 2) * random();
}
