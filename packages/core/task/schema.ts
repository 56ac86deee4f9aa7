import { leftoverPolicies } from "@concierge/protocol";
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
  ownHostsMax,
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
/** The size of encrypted `env` and credential in base64. */
const sealedMaxBytes = Math.ceil((envMaxBytes + 2048) / 3) * 4;
/** One turn's phases: queued, claimed and taken over, running, finalizing, stopping, ended. */
const phasesPerTurn = takeOversKept + 6;

// Here and elsewhere, schemas are created on first use: creating all of them takes longer than a request.

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
    /** How long it took to acquire the sandbox, in total and per step. */
    initMs: z.optional(time),
    steps: z.optional(bounded(z.record(wordOf(16), time), { maxItems: 16 })),
    /** How long the sandbox had been idle, and why it is not the previous one. */
    idleMs: z.optional(time),
    replaced: z.optional(wordOf(16)),
    /**
     * The hosts that the turn may reach. Present if the provider injects credentials, so that none enter the sandbox.
     */
    hosts: z.optional(bounded(z.array(wordOf(hostMaxLength)), { maxItems: hostsMax + ownHostsMax })),
  }),
);

/** A worker's hold on a turn it provisions. Another worker may take over after `until`. */
export const claimSchema = z.lazy(() => z.object({ id: ownId(), until: time }));

/** What is pushed where: enough to look up the outcome without the sandbox. */
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
  /** How long the agent's process ran, according to its runner. */
  agentMs: z.optional(time),
};

/** The state of the current turn. Fields that a status does not have are dropped on read. */
export const stateSchema = z.lazy(() =>
  z.discriminatedUnion("status", [
    z.object({ status: z.literal("queued") }),
    z.object({ status: z.literal("provisioning"), claim: claimSchema }),
    /** `commandId` is the command that launched the runner. */
    z.object({ status: z.literal("running"), commandId: providerId() }),
    /** The push is granted. Until `finalizeBy` the runner reports its outcome; afterwards it is looked up. */
    z.object({
      status: z.literal("finalizing"),
      push: pushSchema,
      finalizeBy: time,
      /** How many times the outcome was looked up. */
      attempts: z.optional(z.int().check(z.nonnegative())),
      commandId: z.optional(providerId()),
    }),
    /** From here on no push is granted and no output accepted. The outcome is written once death is proven. */
    z.object({
      status: z.literal("stopping"),
      outcome: z.enum(["stopped", "timed_out", "failed"]),
      error: taskErrorSchema,
      attempts: z.int().check(z.nonnegative()),
      /** Set if it was known when the stop began. */
      commandId: z.optional(providerId()),
    }),
    z.object({ status: z.literal("succeeded"), ...ended }),
    z.object({ status: z.literal("failed"), ...ended, error: taskErrorSchema }),
    z.object({ status: z.literal("stopped"), ...ended, error: taskErrorSchema }),
    z.object({ status: z.literal("timed_out"), ...ended, error: taskErrorSchema }),
  ]),
);

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

const count = () => z.optional(z.int().check(z.nonnegative()));

export const tallySchema = z.lazy(() =>
  z.object({
    turn: z.int().check(z.positive()),
    stopAttempts: count(),
    /** How long after it counted as silent the turn was ended. */
    stuckLateMs: count(),
    /** How often the sandbox of a silent turn reported activity. */
    falseSilences: count(),
    recreatesFailed: count(),
    /** How often a sandbox was lost again after it had been replaced. */
    loops: count(),
  }),
);

export const taskSchema = z.lazy(() =>
  z.object({
    id: ownId(),
    userId: userId(),
    sessionKey: sessionKey(),
    agent: z.enum(agents),
    /** The current turn's prompt if it is short. `store.getPrompt` always has it. */
    prompt: z.optional(bounded(z.string(), { maxBytes: inlinePromptMaxBytes })),
    /**
     * Names the request that made this turn. Its prompt is stored under it, and a retry recognises its own turn by it.
     */
    turnKey: z.optional(wordOf(64)),
    /** The idempotency key of its start, so that both are deleted together. */
    startKey: z.optional(wordOf(128)),
    keepAlive: z.boolean(),
    limits: limitsSchema,
    metadata: bounded(z.record(textOf(metadataKeyMaxLength), textOf(metadataValueMaxLength)), {
      maxItems: metadataMaxKeys,
    }),
    repo: z.optional(repoSchema),
    /** The turn's `env` and git credential, encrypted; removed when the turn ends. */
    sealed: z.optional(bounded(z.string(), { maxBytes: sealedMaxBytes })),
    /** The first caller's nonce gets the clone credential, before there is an agent that could ask for it. */
    cloneNonce: z.optional(textOf(128)),
    turn: z.int().check(z.positive()),
    state: stateSchema,
    /** An earlier worker of this turn failed or died after it may have launched it. */
    maybeLaunched: z.optional(z.boolean()),
    sandbox: z.optional(sandboxUseSchema),
    createdAt: time,
    deadlineAt: time,
    /** Last output, or proof of output that could not be delivered. */
    lastActivityAt: time,
    /** Last time the agent was known to wait for its model or a tool. */
    aliveAt: z.optional(time),
    startedAt: z.optional(time),
    /** The newest committed batch of this turn. Readers ignore later ones. */
    outputSeq: z.int().check(z.nonnegative()),
    /** The same for earlier turns. */
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
    /** How many phases there ever were; `phases` holds the newest. */
    phaseCount: z.int().check(z.nonnegative()),
    notices: bounded(z.array(noticeSchema), { maxItems: noticesMax + noticesSlack }),
    noticesDropped: z.optional(z.int().check(z.nonnegative())),
    /** The agent's own conversation, and the sandbox that has it. */
    conversation: z.optional(z.object({ id: wordOf(200), sandbox: providerId(), at: time })),
    /** The usage of this turn's agent, and of earlier turns. */
    usage: z.optional(usageSchema),
    pastUsage: z.optional(usageSchema),
    /** Hosts it may reach besides those it needs. */
    network: z.optional(z.object({ allow: bounded(z.array(wordOf(hostMaxLength)), { maxItems: hostsMax }) })),
    /** What to do with processes of earlier turns. Absent: keep this task's, end another's. */
    leftovers: z.optional(z.enum(leftoverPolicies)),
    /** What the api has stored of this turn's output. */
    outputBytes: z.optional(z.int().check(z.nonnegative())),
    webhook: z.optional(z.object({ url: textOf(webhookUrlMaxLength) })),
    /** The provider did not confirm that the turn's credentials were taken away from its sandbox. */
    networkOpen: z.optional(z.boolean()),
    /** The newest turn whose follow-up is done: usage counted, webhook queued. */
    countedTurn: z.optional(z.int().check(z.nonnegative())),
    /** The newest turn whose usage was added to its user's sums, written only if the sum over all users failed. */
    summedTurn: z.optional(z.int().check(z.nonnegative())),
    /** What happened during this turn that its end counts. */
    tally: z.optional(tallySchema),
    /** When the reaper looks at this task; absent once it has ended and the follow-up is done. */
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
export type Tally = z.infer<typeof tallySchema>;
export type Limits = z.infer<typeof limitsSchema>;

export function commandOf({ state }: Task): { commandId?: string } {
  return "commandId" in state && state.commandId !== undefined ? { commandId: state.commandId } : {};
}

/** The turn's tally with these counts added. */
export function tallied(
  { turn, tally }: Pick<Task, "turn" | "tally">,
  counts: Omit<Tally, "turn">,
): { tally: Tally } {
  const before: Omit<Tally, "turn"> = tally?.turn === turn ? tally : {};
  const sum = { ...before };
  for (const [name, by] of Object.entries(counts) as [keyof typeof counts, number][])
    if (by > 0) sum[name] = (before[name] ?? 0) + by;
  return { tally: { ...sum, turn } };
}

export function isTerminal(status: Status): status is (typeof terminalStatuses)[number] {
  return (terminalStatuses as readonly Status[]).includes(status);
}
