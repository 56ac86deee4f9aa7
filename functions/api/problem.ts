import { AppError, type ErrorCode, errorTable, limits, ProviderError, SetupError } from "@concierge/core";
import type { Context } from "hono";
import * as z from "zod/mini";

export const problemSchema = z
  .lazy(() =>
    z.object({
      type: z.string(),
      title: z.string(),
      status: z.int(),
      code: z.string(),
      detail: z.string(),
      issues: z.optional(z.array(z.object({ path: z.string(), message: z.string() }))),
      moreIssues: z.optional(z.int()),
    }),
  )
  .register(z.globalRegistry, { id: "Problem" });

/** The error responses of a route for the OpenAPI document. */
export function problems(...codes: ErrorCode[]) {
  const byStatus = Map.groupBy(new Set(codes), (code) => errorTable[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, group]) => [
      status,
      {
        description: group.join(", "),
        content: { "application/problem+json": { schema: problemSchema } },
        ...headersOf(status),
      },
    ]),
  );
}

function headersOf(status: number): { headers?: z.ZodMiniType } {
  if (status === 405) return { headers: z.object({ allow: z.string() }) };
  if (status === 429 || status === 503) return { headers: z.object({ "retry-after": z.string() }) };
  return {};
}

/** Answers an error as an RFC 9457 problem. Details of unexpected errors are logged, not sent. */
export function answerError(error: unknown, c: Context, headers: Record<string, string> = {}): Response {
  const { code, message, extra } = toAppError(error);
  const { status, title } = errorTable[code];
  const body = { type: `urn:concierge:problem:${code}`, title, status, code, detail: message, ...extra };
  const { retryAfterMs } = extra;
  return c.newResponse(JSON.stringify(body), status as 500, {
    "content-type": "application/problem+json",
    ...(typeof retryAfterMs === "number" && { "retry-after": String(Math.ceil(retryAfterMs / 1000)) }),
    // Lambda function URLs rename this to `x-amzn-remapped-www-authenticate`.
    ...(status === 401 && { "www-authenticate": "Bearer" }),
    ...headers,
  });
}

/** Limits of the reported issues. A large request can have a hundred thousand. */
const issuesMax = 20;
const issueTextMax = 200;

/** Answers a request that does not parse, with its first issues and the number of the rest. */
export function answerInvalid(error: z.core.$ZodError, c: Context): Response {
  return answerError(toInvalid(error), c);
}

export function toInvalid(error: z.core.$ZodError): AppError {
  const issues = error.issues.slice(0, issuesMax).map(({ path, message }) => ({
    path: shorten(path.join(".")),
    message: shorten(message),
  }));
  const moreIssues = error.issues.length - issues.length;
  const detail = summarize(issues) + (moreIssues > 0 ? `; and ${moreIssues} more` : "");
  return new AppError("invalid_request", detail, { issues, ...(moreIssues > 0 && { moreIssues }) });
}

function shorten(text: string): string {
  return text.length > issueTextMax ? `${text.slice(0, issueTextMax - 1)}…` : text;
}

/** What is shown of an error. The details of an unexpected one are not. */
export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  if (error instanceof SetupError) return new AppError("session_not_ready", error.message);
  if (error instanceof ProviderError) return fromProvider(error);
  return new AppError("internal", "The error has been logged.");
}

/** What the provider refuses is the caller's fault. A transient failure can be retried. */
function fromProvider({ kind, message, retryAfterMs = limits.retryProvisionMs }: ProviderError): AppError {
  switch (kind) {
    case "refused":
      return new AppError("invalid_request", message);
    case "gone":
    case "stopped":
      return new AppError("session_not_ready", message);
    case "throttled":
    case "transient":
      return new AppError("provider_unavailable", message, { retryAfterMs });
  }
}

function summarize(issues: readonly { path: string; message: string }[]): string {
  return issues.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join("; ");
}
