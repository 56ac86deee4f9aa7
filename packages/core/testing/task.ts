import type { Task } from "../task/schema.ts";

/** A task that was just started, for decision tables. */
export function aTask(over: Partial<Task> = {}): Task {
  return {
    id: "task_1",
    userId: "user",
    sessionKey: "default",
    agent: "shell",
    prompt: "true",
    keepAlive: true,
    limits: { maxDurationMs: 1000, inactivityMs: 1000 },
    metadata: {},
    turn: 1,
    state: { status: "queued" },
    createdAt: 0,
    deadlineAt: 1000,
    lastActivityAt: 0,
    outputSeq: 0,
    past: [],
    phases: [{ turn: 1, status: "queued", at: 0, by: "api" }],
    phaseCount: 1,
    notices: [],
    expiresAt: 1e12,
    ...over,
  };
}
