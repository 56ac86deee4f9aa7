import * as z from "zod/mini";
import { bounded, ownId, providerId, sessionKey, textOf, userId, wordOf } from "../bounds.ts";
import {
  branchMaxLength,
  envMaxBytes,
  errorDetailMaxBytes,
  hostMaxLength,
  hostsMax,
  inlinePromptMaxBytes,
  metadataKeyMaxLength,
  metadataMaxKeys,
  metadataValueMaxLength,
  noticeDetailMaxBytes,
  noticesMax,
  noticesSlack,
  phasesKept,
  repoUrlMaxLength,
  resultTextMaxLength,
  takeOversKept,
  turnsMax,
  webhookUrlMaxLength,
} from "../limits.ts";

export const agents = ["claude", "codex", "cursor", "shell"] as const;
export const statuses = [
  "queued",
  "provisioning",
  "running",
  "finalizing",
  "stopping",
  "succeeded",
  "failed",
  "stopped",
  "timed_out",
] as const;
export const terminalStatuses = ["succeeded", "failed", "stopped", "timed_out"] as const;
export const taskErrorCodes = [
  "agent_failed",
  "inactivity_timeout",
  "deadline_exceeded",
  "budget_exceeded",
  "provision_failed",
  "sandbox_lost",
  "finalize_timeout",
  "push_failed",
  "stopped_by_user",
  "internal",
] as const;
export const origins = ["reused", "resumed", "warm", "snapshot", "cold"] as const;
export const actors = ["api", "worker", "runner", "timer", "reaper"] as const;

export type Agent = (typeof agents)[number];
export type Status = (typeof statuses)[number];
export type Actor = (typeof actors)[number];
export type Origin = (typeof origins)[number];

const time = z.int().check(z.nonnegative());
const commit = () => wordOf(64);
const branch = () => textOf(branchMaxLength);
/** Of the env and a credential, as base64, with what says how it was sealed. */
const sealedMaxBytes = Math.ceil((envMaxBytes + 2048) / 3) * 4;
/** One turn: queued, claimed and taken over, running, finalizing, stopping, ended. */
const phasesPerTurn = takeOversKept + 6;

// Here and elsewhere schemas are made by their first use: all of them take longer than a request does.

export const taskErrorSchema = z.lazy(() =>
  z.object({ code: z.enum(taskErrorCodes), detail: bounded(z.string(), { maxBytes: errorDetailMaxBytes }) }),
);

export const resultSchema = z.lazy(() =>
  z.object({
    exitCode: z.nullable(z.int()),
    text: textOf(resultTextMaxLength),
    commit: z.nullable(commit()),
    branch: z.nullable(branch()),
    pushed: z.boolean(),
  }),
);

export const sandboxUseSchema = z.lazy(() =>
  z.object({
    name: providerId(),
    sessionId: providerId(),
    origin: z.enum(origins),
    epoch: z.int().check(z.positive()),
    /** How long it took to get it, and each step of that. */
    initMs: z.optional(time),
    steps: z.optional(bounded(z.record(wordOf(16), time), { maxItems: 16 })),
    /** How long the sandbox had been kept for nobody before this turn, and why it is not the one before. */
    idleMs: z.optional(time),
    replaced: z.optional(wordOf(16)),
  }),
);

/** A worker's hold on a turn it provisions: another may take it over once `until` has passed. */
export const claimSchema = z.lazy(() => z.object({ id: ownId(), until: time }));

/** What is pushed, and where to: enough to look the outcome up without the sandbox. */
export const pushSchema = z.lazy(() =>
  z.object({
    commit: commit(),
    branch: branch(),
    exitCode: z.int(),
    text: textOf(resultTextMaxLength),
  }),
);

export const repoSchema = z.lazy(() =>
  z.object({
    url: textOf(repoUrlMaxLength),
    baseBranch: z.optional(branch()),
    branch: branch(),
    push: z.boolean(),
  }),
);

const ended = {
  endedAt: time,
  result: z.nullable(resultSchema),
  /** How long the agent's process ran, by its runner. */
  agentMs: z.optional(time),
};

/** What a task's turn is doing. A field that a status does not have is dropped where it is read. */
export const stateSchema = z.lazy(() =>
  z.discriminatedUnion("status", [
    z.object({ status: z.literal("queued") }),
    z.object({ status: z.literal("provisioning"), claim: claimSchema }),
    /** The command is what it was launched with. */
    z.object({ status: z.literal("running"), commandId: providerId() }),
    /** The push is granted; until `finalizeBy` its outcome is the runner's to tell, then it is looked up. */
    z.object({
      status: z.literal("finalizing"),
      push: pushSchema,
      finalizeBy: time,
      /** How often the outcome was looked for. */
      attempts: z.optional(z.int().check(z.nonnegative())),
      commandId: z.optional(providerId()),
    }),
    /** No push is granted and no output taken from here on; the outcome is written once the death is proven. */
    z.object({
      status: z.literal("stopping"),
      outcome: z.enum(["stopped", "timed_out", "failed"]),
      error: taskErrorSchema,
      attempts: z.int().check(z.nonnegative()),
      /** Where it was known when the stop began. */
      commandId: z.optional(providerId()),
    }),
    z.object({ status: z.literal("succeeded"), ...ended }),
    z.object({ status: z.literal("failed"), ...ended, error: taskErrorSchema }),
    z.object({ status: z.literal("stopped"), ...ended, error: taskErrorSchema }),
    z.object({ status: z.literal("timed_out"), ...ended, error: taskErrorSchema }),
  ]),
);

/** What a turn's agent says it used; costs are dollars. */
export const usageSchema = z.lazy(() =>
  z.object({
    inputTokens: z.int().check(z.nonnegative()),
    outputTokens: z.int().check(z.nonnegative()),
    costUsd: z.number().check(z.nonnegative()),
  }),
);

export const phaseSchema = z.lazy(() =>
  z.object({
    turn: z.int().check(z.positive()),
    status: z.enum(statuses),
    at: time,
    by: z.enum(actors),
    note: z.optional(wordOf(64)),
  }),
);

export const noticeSchema = z.lazy(() =>
  z.object({
    code: wordOf(32),
    detail: bounded(z.string(), { maxBytes: noticeDetailMaxBytes }),
    turn: z.int().check(z.positive()),
    at: time,
  }),
);

export const limitsSchema = z.lazy(() =>
  z.object({
    maxDurationMs: z.int(),
    inactivityMs: z.int(),
    maxCostUsd: z.optional(z.number()),
  }),
);

export const taskSchema = z.lazy(() =>
  z.object({
    id: ownId(),
    userId: userId(),
    sessionKey: sessionKey(),
    agent: z.enum(agents),
    /** What this turn was asked, where it is short; `store.getPrompt` has it in any case. */
    prompt: z.optional(bounded(z.string(), { maxBytes: inlinePromptMaxBytes })),
    /** Says which request made this turn: its prompt is stored under it, and a retry knows its own turn by it. */
    turnKey: z.optional(wordOf(64)),
    keepAlive: z.boolean(),
    limits: limitsSchema,
    metadata: bounded(z.record(textOf(metadataKeyMaxLength), textOf(metadataValueMaxLength)), {
      maxItems: metadataMaxKeys,
    }),
    repo: z.optional(repoSchema),
    /** The turn's `env` and git credential, encrypted; gone when the turn ends. */
    sealed: z.optional(bounded(z.string(), { maxBytes: sealedMaxBytes })),
    /** Who has the credential to clone with: it is handed to the first who asks, before there is an agent to ask for it. */
    cloneNonce: z.optional(textOf(128)),
    turn: z.int().check(z.positive()),
    state: stateSchema,
    /** The sandbox this turn has, from when it is known. */
    sandbox: z.optional(sandboxUseSchema),
    createdAt: time,
    deadlineAt: time,
    /** When the agent was last heard: output, or proof of output that could not be delivered. */
    lastActivityAt: time,
    /** When it was last known to wait for its model or a tool. */
    aliveAt: z.optional(time),
    startedAt: z.optional(time),
    /** The newest batch of this turn's output that is committed: a batch behind it does not exist for a reader. */
    outputSeq: z.int().check(z.nonnegative()),
    /** The same for the turns before. */
    past: bounded(
      z.array(
        z.object({
          turn: z.int().check(z.positive()),
          outputSeq: z.int().check(z.nonnegative()),
          key: z.optional(wordOf(64)),
        }),
      ),
      { maxItems: turnsMax },
    ),
    phases: bounded(z.array(phaseSchema), { maxItems: phasesKept + phasesPerTurn }),
    /** How many phases there ever were; `phases` holds the newest of them. */
    phaseCount: z.int().check(z.nonnegative()),
    notices: bounded(z.array(noticeSchema), { maxItems: noticesMax + noticesSlack }),
    /** How many older notices are no longer kept. */
    noticesDropped: z.optional(z.int().check(z.nonnegative())),
    /** The agent's own conversation, and the sandbox that has it. */
    conversation: z.optional(z.object({ id: wordOf(200), sandbox: providerId(), at: time })),
    /** What this turn's agent used, and those of the turns before. */
    usage: z.optional(usageSchema),
    pastUsage: z.optional(usageSchema),
    /** Hosts it may reach beside those it needs anyway. */
    network: z.optional(z.object({ allow: bounded(z.array(wordOf(hostMaxLength)), { maxItems: hostsMax }) })),
    /** Where the end of each turn is told. */
    webhook: z.optional(z.object({ url: textOf(webhookUrlMaxLength) })),
    /** The newest turn whose end was followed up: its usage counted, its webhook queued. */
    countedTurn: z.optional(z.int().check(z.nonnegative())),
    /** When the reaper must look at this task; absent once it has ended and all that follows an end is done. */
    dueAt: z.optional(time),
    /** How often the reaper has looked at it in this turn and status. */
    reaped: z.optional(z.object({ turn: z.int(), status: z.enum(statuses), count: z.int() })),
    expiresAt: time,
  }),
);

export type Task = z.infer<typeof taskSchema>;
export type TaskState = z.infer<typeof stateSchema>;
export type TaskError = z.infer<typeof taskErrorSchema>;
export type TaskResult = z.infer<typeof resultSchema>;
export type SandboxUse = z.infer<typeof sandboxUseSchema>;
export type Phase = z.infer<typeof phaseSchema>;
export type Notice = z.infer<typeof noticeSchema>;
export type Repo = z.infer<typeof repoSchema>;
export type Push = z.infer<typeof pushSchema>;
export type AgentUsage = z.infer<typeof usageSchema>;
export type Limits = z.infer<typeof limitsSchema>;

/** What the turn was launched with, where its state has it. */
export function commandOf({ state }: Task): { commandId?: string } {
  return "commandId" in state && state.commandId !== undefined ? { commandId: state.commandId } : {};
}

export function isTerminal(status: Status): status is (typeof terminalStatuses)[number] {
  return (terminalStatuses as readonly Status[]).includes(status);
}
