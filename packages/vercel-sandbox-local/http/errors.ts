// Codes that the SDK or its documentation names are the service's own.
const statusByCode = {
  bad_request: 400,
  not_supported: 400,
  git_clone_failed: 400,
  file_error: 400,
  snapshot_too_large: 400,
  forbidden: 403,
  not_found: 404,
  sandbox_stopped: 410,
  snapshot_not_found: 410,
  payload_too_large: 413,
  sandbox_pending: 422,
  sandbox_stopping: 422,
  sandbox_snapshotting: 422,
  rate_limited: 429,
  internal_server_error: 500,
} as const;

export type ErrorCode = keyof typeof statusByCode;

export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly headers: Record<string, string>;
  constructor(code: ErrorCode, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.code = code;
    this.status = statusByCode[code];
    this.headers = headers;
  }
}
