import type { components } from "./schema.gen.ts";

export type Problem = components["schemas"]["Problem"];

/** Codes that the client adds to those of the api. */
export type ClientErrorCode =
  /** No answer: the server is not reachable, or the connection broke. */
  | "connection_failed"
  /** No answer in time. */
  | "timeout"
  /** An answer that is not from Concierge, for example a page of a proxy. */
  | "unexpected_response";

export interface ErrorFields {
  code: string;
  status: number;
  detail: string;
  retryAfterMs?: number | undefined;
  requestId?: string | undefined;
  problem?: Problem | undefined;
  cause?: unknown;
}

/** Why a call failed. `code` is stable, so decide by it; `detail` is for people. */
export class ConciergeError extends Error {
  /** A code of the api (`not_found`, `session_busy`, …) or a `ClientErrorCode`. */
  readonly code: string;
  /** The HTTP status, or 0 if there was no answer. */
  readonly status: number;
  readonly detail: string;
  /** How long the server asked to wait before the next attempt. */
  readonly retryAfterMs: number | undefined;
  /** Names this request in the server's logs. */
  readonly requestId: string | undefined;
  /** The whole RFC 9457 problem, if the server sent one. */
  readonly problem: Problem | undefined;

  constructor({ code, status, detail, retryAfterMs, requestId, problem, cause }: ErrorFields) {
    super(`${code}: ${detail}`, { cause });
    this.name = "ConciergeError";
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.retryAfterMs = retryAfterMs;
    this.requestId = requestId;
    this.problem = problem;
  }
}

/** The error of a response whose status is not a success. */
export async function errorOf(response: Response): Promise<ConciergeError> {
  const { status, headers } = response;
  const problem = parseProblem(await response.text());
  return new ConciergeError({
    code: problem?.code ?? "unexpected_response",
    status,
    detail: problem?.detail ?? describeUnexpected(response),
    retryAfterMs: parseRetryAfter(headers.get("retry-after")),
    requestId: headers.get("x-request-id") ?? undefined,
    problem,
  });
}

function parseProblem(text: string): Problem | undefined {
  try {
    const value = JSON.parse(text) as Partial<Problem> | null;
    return typeof value?.code === "string" && typeof value.detail === "string"
      ? (value as Problem)
      : undefined;
  } catch {
    return undefined;
  }
}

function describeUnexpected({ status, headers }: Response): string {
  const location = headers.get("location");
  const redirect = location ? ` and redirects to ${location}` : "";
  return `The server answered ${status}${redirect}, but not as Concierge does. Check the URL.`;
}

/** Seconds or a date. */
export function parseRetryAfter(value: string | null, now: number = Date.now()): number | undefined {
  if (value === null) return undefined;
  const seconds = Number(value);
  const ms = Number.isNaN(seconds) ? Date.parse(value) - now : seconds * 1000;
  return Number.isNaN(ms) ? undefined : Math.max(ms, 0);
}
