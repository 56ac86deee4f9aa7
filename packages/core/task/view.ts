import * as z from "zod/mini";
import type { Store } from "../ports.ts";
import { promptOf } from "./prompt.ts";
import {
  type AgentUsage,
  actors,
  agents,
  isTerminal,
  limitsSchema,
  origins,
  type Phase,
  resultSchema,
  statuses,
  type Task,
  taskErrorSchema,
} from "./schema.ts";

const instant = z.iso.datetime();
const duration = z.nullable(z.int().check(z.nonnegative()));

export const taskViewSchema = z
  .lazy(() =>
    z.object({
      id: z.string(),
      status: z.enum(statuses),
      turn: z.int(),
      agent: z.enum(agents),
      sessionKey: z.string(),
      keepAlive: z.boolean(),
      prompt: z.string(),
      limits: limitsSchema,
      metadata: z.record(z.string(), z.string()),
      sandbox: z.nullable(z.object({ name: z.string(), origin: z.enum(origins), epoch: z.int() })),
      createdAt: instant,
      startedAt: z.nullable(instant),
      endedAt: z.nullable(instant),
      deadlineAt: instant,
      lastActivityAt: instant,
      phases: z.array(
        z.object({
          turn: z.int(),
          status: z.enum(statuses),
          at: instant,
          by: z.enum(actors),
          note: z.optional(z.string()),
        }),
      ),
      timings: z.object({
        queuedMs: duration,
        provisionMs: duration,
        agentMs: duration,
        finalizeMs: duration,
        stopMs: duration,
      }),
      result: z.nullable(resultSchema),
      error: z.nullable(taskErrorSchema),
      usage: z.object({ inputTokens: z.int(), outputTokens: z.int(), costUsd: z.number() }),
      notices: z.array(z.object({ code: z.string(), detail: z.string(), turn: z.int() })),
    }),
  )
  .register(z.globalRegistry, { id: "Task" });

export type TaskView = z.infer<typeof taskViewSchema>;

/** A task with its prompt, which may be in its own item. */
export async function showTask(store: Store, task: Task): Promise<TaskView> {
  return viewTask(task, await promptOf(store, task));
}

function viewTask(task: Task, prompt: string): TaskView {
  const { state } = task;
  return {
    id: task.id,
    status: state.status,
    turn: task.turn,
    agent: task.agent,
    sessionKey: task.sessionKey,
    keepAlive: task.keepAlive,
    prompt,
    limits: task.limits,
    metadata: task.metadata,
    sandbox: task.sandbox
      ? { name: task.sandbox.name, origin: task.sandbox.origin, epoch: task.sandbox.epoch }
      : null,
    createdAt: iso(task.createdAt),
    startedAt: task.startedAt === undefined ? null : iso(task.startedAt),
    endedAt: "endedAt" in state ? iso(state.endedAt) : null,
    deadlineAt: iso(task.deadlineAt),
    lastActivityAt: iso(task.lastActivityAt),
    phases: task.phases.map(({ at, ...phase }) => ({ ...phase, at: iso(at) })),
    timings: timingsOf(task.phases.filter((phase) => phase.turn === task.turn)),
    result: "result" in state ? state.result : null,
    error: "error" in state ? state.error : null,
    usage: addUsed(task.usage, task.pastUsage),
    notices: task.notices.map(({ code, detail, turn }) => ({ code, detail, turn })),
  };
}

/** How long the turn was in each status, computed from its phases. */
export function timingsOf(phases: readonly Phase[]): TaskView["timings"] {
  const lasted = (status: Phase["status"]): number | null => {
    const from = phases.findIndex((phase) => phase.status === status);
    const next = phases.slice(from + 1).find((phase) => phase.status !== status);
    const start = phases[from];
    return start && next ? Math.max(next.at - start.at, 0) : null;
  };
  return {
    queuedMs: lasted("queued"),
    provisionMs: lasted("provisioning"),
    agentMs: lasted("running"),
    finalizeMs: lasted("finalizing"),
    stopMs: phases.some((phase) => isTerminal(phase.status)) ? lasted("stopping") : null,
  };
}

/** The usage of all turns together. */
export function addUsed(...usages: readonly (AgentUsage | undefined)[]): AgentUsage {
  const of = (name: keyof AgentUsage) => usages.reduce((total, usage) => total + (usage?.[name] ?? 0), 0);
  return { inputTokens: of("inputTokens"), outputTokens: of("outputTokens"), costUsd: of("costUsd") };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
