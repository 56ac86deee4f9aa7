import type { Task, TaskEvent } from "@concierge/client";

const at = (second: number) => new Date(Date.UTC(2026, 10, 18, 0, 0, second)).toISOString();

export function createTask(over: Partial<Task> = {}): Task {
  return {
    id: "task_1",
    status: "succeeded",
    turn: 1,
    agent: "shell",
    sessionKey: "default",
    keepAlive: true,
    prompt: "echo hello",
    limits: { maxDurationMs: 300_000, inactivityMs: 60_000 },
    metadata: {},
    sandbox: null,
    createdAt: at(0),
    startedAt: at(3),
    endedAt: at(5),
    deadlineAt: at(59),
    lastActivityAt: at(5),
    phases: [
      { turn: 1, status: "queued", at: at(0), by: "api" },
      { turn: 1, status: "succeeded", at: at(5), by: "runner" },
    ],
    timings: { queuedMs: 1, provisionMs: 2, agentMs: 3, finalizeMs: null, stopMs: null },
    result: null,
    error: null,
    usage: { inputTokens: 0, outputTokens: 0, costUsd: 0 },
    notices: [],
    ...over,
  };
}

export function status(status: string, second: number): TaskEvent {
  return { cursor: String(second), at: at(second), turn: 1, type: "status", status };
}

export function progress(step: string, detail: string): TaskEvent {
  return { cursor: "p", at: at(1), turn: 1, type: "progress", step, detail };
}

export function output(text: string, stream: "stdout" | "stderr" = "stdout"): TaskEvent {
  return { cursor: "o", at: at(3), turn: 1, type: "output", stream, text };
}

export function said(agent: Extract<TaskEvent, { type: "agent" }>["agent"]): TaskEvent {
  return { cursor: "a", at: at(3), turn: 1, type: "agent", agent };
}
