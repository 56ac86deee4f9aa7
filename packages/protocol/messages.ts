import type * as z from "zod/mini";
import type {
  agentEventSchema,
  agentReportSchema,
  beatPostSchema,
  clonePostSchema,
  endPostSchema,
  finalizePostSchema,
  grantSchema,
  outputPostSchema,
} from "./schemas/messages.ts";

/** Raised when an old runner or an old control plane can no longer understand the other side. */
export const protocolVersion = 1;

export const runnerPaths = {
  output: "/v1/runner/output",
  beat: "/v1/runner/beat",
  clone: "/v1/runner/clone",
  finalize: "/v1/runner/finalize",
  end: "/v1/runner/end",
} as const;

export type PostKind = keyof typeof runnerPaths;

/**
 * Names the turn in both directions. On a request, an edge can use it for rate limits, because many sandboxes share one
 * address. On an answer it proves that the control plane itself is speaking: it is set only for a token that the
 * control plane issued. The runner treats an answer without it as a network fault and retries.
 */
export const turnHeader = "x-concierge-turn";

/** The value of `turnHeader`. */
export function turnMark({ taskId, turn }: { taskId: string; turn: number }): string {
  return `${taskId}/${turn}`;
}

/** Carries `LaunchConfig.requestId` on every post. */
export const requestIdHeader = "x-request-id";

/** The trace context of every post, and when the runner started, from which the control plane makes its span. */
export function traceHeaders(traceparent: string, startedAt: number): Record<string, string> {
  return { traceparent, tracestate: `concierge=${startedAt}` };
}

/** When the runner that sent this `tracestate` started. */
export function startedAtOf(tracestate: string | undefined): number | undefined {
  const [, text] = /(?:^|,)concierge=(\d{13})(?:,|$)/.exec(tracestate ?? "") ?? [];
  return text === undefined ? undefined : Number(text);
}

export const streams = ["stdout", "stderr"] as const;
export type Stream = (typeof streams)[number];

/** What the agent waits for while it prints nothing. */
export const activities = ["none", "model", "tool"] as const;
export type Activity = (typeof activities)[number];

export const endReasons = [
  "exited",
  "deadline",
  "inactivity",
  "agent_missing",
  "install_failed",
  "clone_failed",
  "runner_error",
] as const;
export type EndReason = (typeof endReasons)[number];

/**
 * `continue` accepts output or a beat, `done` accepts the end. `wait`: the turn is not recorded as running yet, send the
 * same post again. `stop`: kill the agent and send nothing more.
 */
export type RunnerAction = "continue" | "stop" | "wait" | "done";

export type AgentEvent = z.infer<typeof agentEventSchema>;
export type AgentReport = z.infer<typeof agentReportSchema>;
export type Leftover = NonNullable<AgentReport["leftovers"]>[number];
export type AgentUsage = NonNullable<AgentReport["usage"]>;
export type OutputPost = z.infer<typeof outputPostSchema>;
export type OutputChunk = OutputPost["chunks"][number];
export type BeatPost = z.infer<typeof beatPostSchema>;
export type ClonePost = z.infer<typeof clonePostSchema>;
export type FinalizePost = z.infer<typeof finalizePostSchema>;
export type EndPost = z.infer<typeof endPostSchema>;
export type GrantAnswer = z.infer<typeof grantSchema>;
export type GitCredential = NonNullable<Extract<GrantAnswer, { action: "go" }>["credential"]>;
