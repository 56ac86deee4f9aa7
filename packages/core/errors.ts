/** Every way Concierge refuses, with what HTTP says of it. `code` is part of the contract: it never changes. */
const table = {
  invalid_request: { status: 400, title: "The request is not valid" },
  invalid_json: { status: 400, title: "The body is not JSON" },
  invalid_cursor: { status: 400, title: "The cursor is not one of ours" },
  unauthorized: { status: 401, title: "A valid key is needed" },
  forbidden: { status: 403, title: "This key may not do that" },
  not_found: { status: 404, title: "There is no such thing" },
  method_not_allowed: { status: 405, title: "This method is not for this address" },
  session_busy: { status: 409, title: "The session is busy with another turn" },
  finalizing: { status: 409, title: "The work is being pushed" },
  turn_limit: { status: 409, title: "The task has had all its turns" },
  session_not_ready: { status: 409, title: "The session has no sandbox that can be used now" },
  task_active: { status: 409, title: "The task's turn has not ended" },
  idempotency_conflict: { status: 409, title: "This idempotency key was used with another request" },
  payload_too_large: { status: 413, title: "The body is too large" },
  unsupported_media_type: { status: 415, title: "The body must be application/json" },
  no_room: { status: 429, title: "Every sandbox there may be is in use" },
  provider_unavailable: { status: 503, title: "The sandbox provider does not answer" },
  internal: { status: 500, title: "Something went wrong here" },
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

/** Every sandbox there may be is in use by a turn: nothing was made, and nothing could be given up for it. */
export class NoRoomError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "NoRoomError";
  }
}

/** A new sandbox could not be made ready: what installs into it failed, and would again. */
export class SetupError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "SetupError";
  }
}
