import { type ConnectionTarget, createConnection } from "./connection.ts";
import { type GitCredential, RUNNER_PATHS, type RunnerAction } from "./protocol.ts";
import type { Reply } from "./reply.ts";

const MIN_WAIT_MS = 5;
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 2_000;
const MAX_RETRY_AFTER_MS = 5_000;

/**
 * `retry`: it may go well the next time. `rejected`: it never will, the two sides disagree about the protocol; no
 * batch is over the size that Concierge takes, so a 413 is one of these.
 */
export type Answer =
  | { kind: "action"; action: RunnerAction }
  | { kind: "granted"; credential: GitCredential | null }
  | { kind: "retry"; afterMs: number }
  | { kind: "rejected"; detail: string };

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
        return classify(kind, await connection.post(RUNNER_PATHS[kind], body));
      } catch {
        return { kind: "retry", afterMs: 0 };
      }
    },
  };
}

export function classify(kind: PostKind, reply: Reply): Answer {
  switch (reply.status) {
    case 200:
      return readAnswer(kind, reply.body) ?? { kind: "retry", afterMs: 0 };
    // The token has run out, the task is gone, or another turn has the place: nobody waits for this one any more.
    case 401:
    case 403:
    case 404:
    case 409:
    case 410:
      return { kind: "action", action: "stop" };
    case 408:
    case 425:
    case 429:
      return { kind: "retry", afterMs: retryAfterMs(reply.retryAfter) };
    default:
      if (reply.status >= 500) return { kind: "retry", afterMs: retryAfterMs(reply.retryAfter) };
      return {
        kind: "rejected",
        detail: `Concierge refused the runner's ${kind} with status ${reply.status}`,
      };
  }
}

/** Undefined for what is not an answer to this post: something between the two sides spoke, not Concierge. */
function readAnswer(kind: PostKind, body: string): Answer | undefined {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null || !("action" in value)) return undefined;
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
      const credential = "credential" in value ? readCredential(value.credential) : undefined;
      const isGrant = (kind === "clone" || kind === "finalize") && credential !== undefined;
      return isGrant ? { kind: "granted", credential } : undefined;
    }
    default:
      return undefined;
  }
}

function readCredential(value: unknown): GitCredential | null | undefined {
  if (value === null) return null;
  if (typeof value !== "object" || value === undefined) return undefined;
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
