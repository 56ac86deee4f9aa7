import { ConciergeError } from "@concierge/client";

export const exitCodes = { done: 0, failed: 1, usage: 2, notFound: 3, refused: 4 } as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** A failure with its own exit code and, if there is one, a next step. */
export class CommandError extends Error {
  readonly exitCode: ExitCode;
  readonly next: string | undefined;

  constructor(message: string, exitCode: ExitCode = exitCodes.failed, next?: string) {
    super(message);
    this.exitCode = exitCode;
    this.next = next;
  }
}

export class UsageError extends CommandError {
  constructor(message: string, next?: string) {
    super(message, exitCodes.usage, next);
  }
}

export interface Explanation {
  code: string;
  exitCode: ExitCode;
  message: string;
  /** What to do about it. */
  next?: string | undefined;
}

export function explain(error: unknown): Explanation {
  if (error instanceof CommandError) {
    const code = error.exitCode === exitCodes.usage ? "usage" : "failed";
    return { code, exitCode: error.exitCode, message: error.message, next: error.next };
  }
  if (error instanceof ConciergeError) {
    return { code: error.code, exitCode: exitCodeOf(error), message: error.detail, next: nextStep(error) };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { code: "internal", exitCode: exitCodes.failed, message };
}

function exitCodeOf({ code, status }: ConciergeError): ExitCode {
  if (code === "unexpected_response") return exitCodes.failed;
  if (status === 404) return exitCodes.notFound;
  if ([400, 413, 415].includes(status)) return exitCodes.usage;
  return [401, 403, 409, 429].includes(status) ? exitCodes.refused : exitCodes.failed;
}

const nextSteps: Readonly<Record<string, string>> = {
  connection_failed:
    "Check --url, or start a server with `concierge dev`. `concierge doctor` looks for the cause.",
  timeout: "Try again. `concierge doctor` looks for the cause.",
  unexpected_response: "Check --url or CONCIERGE_URL: it must be the address of a Concierge server.",
  unauthorized: "Store a valid key with `concierge login`, or set CONCIERGE_API_KEY.",
  forbidden: "Use a key that may do this: --key, CONCIERGE_API_KEY or another --profile.",
  missing_scope: "Use a key with this scope: --key, CONCIERGE_API_KEY or another --profile.",
  key_limit: "Revoke a key that is not used: `concierge keys`, then `concierge keys revoke`.",
  not_found: "`concierge ps` lists your tasks, `concierge sessions` your sessions.",
  session_busy:
    "Wait for the other turn (`concierge ps`), stop it, or choose another session with --session.",
  task_active: "Wait for the turn with `concierge watch`, or end it with `concierge stop`.",
  finalizing: "The push is already granted, so the task ends by itself: `concierge watch` shows it.",
  turn_limit: "Start a new task in the same session: `concierge start --session`.",
  session_not_ready: "`concierge sessions prepare` prepares a sandbox.",
  no_room: "Try again later, or free a sandbox: `concierge sessions`, then `concierge sessions delete`.",
  provider_unavailable: "The sandbox provider has a problem. Try again later.",
};

function nextStep({ code, requestId }: ConciergeError): string | undefined {
  if (code === "internal" && requestId) return `The server's logs have the cause under request ${requestId}.`;
  return nextSteps[code];
}
