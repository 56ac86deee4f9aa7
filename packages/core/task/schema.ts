import * as z from "zod/mini";

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

// Here and elsewhere schemas are made by their first use: all of them take longer than a request does.

export const taskErrorSchema = z.lazy(() => z.object({ code: z.enum(taskErrorCodes), detail: z.string() }));

export const resultSchema = z.lazy(() =>
  z.object({
    exitCode: z.nullable(z.int()),
    text: z.string(),
    commit: z.nullable(z.string()),
    branch: z.nullable(z.string()),
    pushed: z.boolean(),
  }),
);

export const sandboxUseSchema = z.lazy(() =>
  z.object({
    name: z.string(),
    sessionId: z.string(),
    origin: z.enum(origins),
    epoch: z.int().check(z.positive()),
    /** How long it took to get it, and each step of that. */
    initMs: z.optional(time),
    steps: z.optional(z.record(z.string(), time)),
    /** How long the sandbox had been kept for nobody before this turn, and why it is not the one before. */
    idleMs: z.optional(time),
    replaced: z.optional(z.string()),
  }),
);

/** A worker's hold on a turn it provisions: another may take it over once `until` has passed. */
export const claimSchema = z.lazy(() => z.object({ id: z.string(), until: time }));

/** What is pushed, and where to: enough to look the outcome up without the sandbox. */
export const pushSchema = z.lazy(() =>
  z.object({
    commit: z.string(),
    branch: z.string(),
    exitCode: z.int(),
    text: z.string(),
  }),
);

export const repoSchema = z.lazy(() =>
  z.object({
    url: z.string(),
    baseBranch: z.optional(z.string()),
    branch: z.string(),
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
    z.object({ status: z.literal("running"), commandId: z.string() }),
    /** The push is granted; until `finalizeBy` its outcome is the runner's to tell, then it is looked up. */
    z.object({
      status: z.literal("finalizing"),
      push: pushSchema,
      finalizeBy: time,
      commandId: z.optional(z.string()),
    }),
    /** No push is granted and no output taken from here on; the outcome is written once the death is proven. */
    z.object({
      status: z.literal("stopping"),
      outcome: z.enum(["stopped", "timed_out", "failed"]),
      error: taskErrorSchema,
      attempts: z.int().check(z.nonnegative()),
      /** Where it was known when the stop began. */
      commandId: z.optional(z.string()),
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
    note: z.optional(z.string()),
  }),
);

export const noticeSchema = z.lazy(() =>
  z.object({
    code: z.string(),
    detail: z.string(),
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
    id: z.string(),
    userId: z.string(),
    sessionKey: z.string(),
    agent: z.enum(agents),
    prompt: z.string(),
    keepAlive: z.boolean(),
    limits: limitsSchema,
    metadata: z.record(z.string(), z.string()),
    repo: z.optional(repoSchema),
    /** The turn's `env` and git credential, encrypted; gone when the turn ends. */
    sealed: z.optional(z.string()),
    /** Who has the credential to clone with: it is handed to the first who asks, before there is an agent to ask for it. */
    cloneNonce: z.optional(z.string()),
    turn: z.int().check(z.positive()),
    state: stateSchema,
    /** The sandbox this turn has, from when it is known. */
    sandbox: z.optional(sandboxUseSchema),
    createdAt: time,
    deadlineAt: time,
    lastActivityAt: time,
    startedAt: z.optional(time),
    /** The newest batch of this turn's output that is committed: a batch behind it does not exist for a reader. */
    outputSeq: z.int().check(z.nonnegative()),
    /** The same for the turns before. */
    past: z.array(z.object({ turn: z.int().check(z.positive()), outputSeq: z.int().check(z.nonnegative()) })),
    phases: z.array(phaseSchema),
    /** How many phases there ever were; `phases` holds the newest of them. */
    phaseCount: z.int().check(z.nonnegative()),
    notices: z.array(noticeSchema),
    /** The agent's own conversation, and the sandbox that has it. */
    conversation: z.optional(z.object({ id: z.string(), sandbox: z.string(), at: time })),
    /** What this turn's agent used, and those of the turns before. */
    usage: z.optional(usageSchema),
    pastUsage: z.optional(usageSchema),
    /** Hosts it may reach beside those it needs anyway. */
    network: z.optional(z.object({ allow: z.array(z.string()) })),
    /** Where the end of each turn is told. */
    webhook: z.optional(z.object({ url: z.string() })),
    /** The newest turn whose use of its sandbox was counted. */
    countedTurn: z.optional(z.int().check(z.nonnegative())),
    /** When someone must look at this task again; absent once it has ended. */
    dueAt: z.optional(time),
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
