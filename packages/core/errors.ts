import { capacityRetryMs } from "./limits.ts";

/** Every error code with its HTTP status and title. Codes are part of the API contract and never change. */
const table = {
  invalid_request: { status: 400, title: "Invalid request" },
  invalid_json: { status: 400, title: "Invalid JSON" },
  invalid_cursor: { status: 400, title: "Invalid cursor" },
  unauthorized: { status: 401, title: "Authentication required" },
  forbidden: { status: 403, title: "Not allowed" },
  missing_scope: { status: 403, title: "Missing scope" },
  not_found: { status: 404, title: "Not found" },
  method_not_allowed: { status: 405, title: "Method not allowed" },
  session_busy: { status: 409, title: "Session busy" },
  finalizing: { status: 409, title: "Push in progress" },
  turn_limit: { status: 409, title: "Turn limit reached" },
  session_not_ready: { status: 409, title: "Session not ready" },
  key_limit: { status: 409, title: "Key limit reached" },
  task_active: { status: 409, title: "Task still active" },
  idempotency_conflict: { status: 409, title: "Idempotency key conflict" },
  payload_too_large: { status: 413, title: "Body too large" },
  unsupported_media_type: { status: 415, title: "Unsupported media type" },
  rate_limited: { status: 429, title: "Too many requests" },
  task_limit: { status: 429, title: "Task limit reached" },
  queue_limit: { status: 429, title: "Queue limit reached" },
  stream_limit: { status: 429, title: "Stream limit reached" },
  spend_limit: { status: 429, title: "Spend limit reached" },
  secret_changed: { status: 409, title: "Secret changed meanwhile" },
  user_deleting: { status: 409, title: "User is being deleted" },
  no_room: { status: 429, title: "Sandbox capacity reached" },
  provider_unavailable: { status: 503, title: "Sandbox provider unavailable" },
  internal: { status: 500, title: "Internal error" },
} as const;

export type ErrorCode = keyof typeof table;

export const errorTable: Readonly<Record<ErrorCode, { status: number; title: string }>> = table;

export class AppError extends Error {
  readonly code: ErrorCode;
  /** Members added to the problem document. */
  readonly extra: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, detail: string, extra: Record<string, unknown> = {}) {
    super(detail);
    this.name = "AppError";
    this.code = code;
    this.extra = extra;
  }
}

/**
 * Why a call to the provider failed. Only `gone` and `stopped` say something about the sandbox. Both are evidence that
 * nothing of the session runs any more, so an adapter throws them only after a look-up confirmed them. Every other kind
 * leaves the state of the sandbox unknown, and unknown is never good news.
 *
 * - `gone`: the sandbox (or the snapshot) does not exist.
 * - `stopped`: the sandbox exists, but the session that was asked does not run. The sandbox can be resumed.
 * - `throttled`: the provider is busy. `retryAfterMs` says how long it wants to be left alone.
 * - `transient`: no usable answer, or one that will be different soon. The call may have had its effect.
 * - `refused`: the provider will not do it. The same call fails again.
 */
export type ProviderFailure = "gone" | "stopped" | "throttled" | "transient" | "refused";

/** A failed call to the provider, classified by type, status and code, never by the text of the error. */
export class ProviderError extends Error {
  readonly kind: ProviderFailure;

  /** How long the provider asked to be left alone. */
  readonly retryAfterMs: number | undefined;

  /** The command had started before the call failed. Running it again would run it twice. */
  readonly hasBegun: boolean;

  constructor(
    kind: ProviderFailure,
    message: string,
    options: ErrorOptions & { retryAfterMs?: number | undefined; hasBegun?: boolean } = {},
  ) {
    super(message, options);
    this.name = "ProviderError";
    this.kind = kind;
    this.retryAfterMs = options.retryAfterMs;
    this.hasBegun = options.hasBegun ?? false;
  }
}

/** All sandboxes are in use by turns. Nothing was created and nothing could be released. */
export class CapacityError extends AppError {
  constructor(message: string) {
    super("no_room", message, { retryAfterMs: capacityRetryMs });
    this.name = "CapacityError";
  }
}

/** The setup of a new sandbox failed, and would fail again. */
export class SetupError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "SetupError";
  }
}
