import { type GitCredential, type PostKind, type RunnerAction, runnerPaths } from "@concierge/protocol";
import { type ConnectionTarget, createConnection, type Reply } from "./connection.ts";

const waitMinMs = 5;
const backoffMinMs = 100;
const backoffMaxMs = 2_000;
const retryAfterMaxMs = 5_000;

/**
 * `retry`: the next try may succeed. `rejected`: Concierge will never accept this post, because the two sides disagree
 * about the protocol. That includes a 413: no batch is larger than the protocol allows.
 */
export type Answer =
  | { kind: "action"; action: RunnerAction }
  | { kind: "granted"; credential: GitCredential | null }
  | { kind: "retry"; afterMs: number }
  | { kind: "rejected"; detail: string };

export interface Client {
  /** Connects ahead of the next post. */
  connect(): void;
  /** Never rejects: a network fault is a `retry`. */
  post(kind: PostKind, body: Buffer): Promise<Answer>;
}

export function createClient(target: ConnectionTarget): Client {
  const connection = createConnection(target);
  return {
    connect() {
      connection.open().catch(() => {});
    },
    async post(kind, body) {
      try {
        return classify(kind, await connection.post(runnerPaths[kind], body), target.mark);
      } catch {
        return { kind: "retry", afterMs: 0 };
      }
    },
  };
}

/**
 * Only Concierge may stop an agent. Its answers name the turn, and its refusals carry an error code. Anything else on
 * the way (a firewall, a login page, a redirect) can answer with any status; the post is then retried until the
 * deadline.
 */
export function classify(kind: PostKind, reply: Reply, mark: string): Answer {
  const retry: Answer = { kind: "retry", afterMs: retryAfterMs(reply.retryAfter) };
  if (reply.turn !== mark) return retry;
  const body = parseObject(reply.body);
  if (body === undefined) return retry;
  if (reply.status === 200) return readAnswer(kind, body) ?? retry;
  if (typeof body.code !== "string") return retry;
  switch (reply.status) {
    // The token expired, the task is gone, or another turn replaced this one.
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
      return retry;
  }
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Undefined if it is not an answer to this kind of post. */
function readAnswer(kind: PostKind, { action, credential }: Record<string, unknown>): Answer | undefined {
  switch (action) {
    case "stop":
    case "wait":
      return { kind: "action", action };
    case "continue":
      return kind === "output" || kind === "beat" ? { kind: "action", action } : undefined;
    case "done":
      return kind === "end" ? { kind: "action", action } : undefined;
    case "go": {
      const granted = readCredential(credential);
      const isGrant = (kind === "clone" || kind === "finalize") && granted !== undefined;
      return isGrant ? { kind: "granted", credential: granted } : undefined;
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
  return seconds > 0 ? Math.min(seconds * 1000, retryAfterMaxMs) : 0;
}

/** The pause after the nth `wait` in a row. Most turns are recorded as running a few milliseconds after launch. */
export function waitMs(waits: number, maxMs: number): number {
  return Math.min(maxMs, waitMinMs * 2 ** (waits - 1));
}

/** The pause after the nth failure in a row: doubling from 100 ms to 2 s, half of it random to spread runners out. */
export function backoffMs(failures: number, random: () => number): number {
  const fullMs = Math.min(backoffMaxMs, backoffMinMs * 2 ** failures);
  return fullMs / 2 + (fullMs / 2) * random();
}
