import type { AgentUsage, Task } from "./schema.ts";

/** What the adapter knows so far about the agent's usage and conversation. */
export interface AgentReport {
  usage?: AgentUsage | undefined;
  conversationId?: string | undefined;
}

/** The parts of the runner's report that are new. */
export function reported(task: Task, { usage, conversationId }: AgentReport, now: number) {
  const isNew = conversationId !== undefined && conversationId !== task.conversation?.id;
  const sandbox = task.sandbox?.name;
  return {
    ...(usage && usage.costUsd + usage.outputTokens > totalOf(task.usage) && { usage }),
    ...(isNew && sandbox && { conversation: { id: conversationId, sandbox, at: now } }),
  };
}

function totalOf(usage: AgentUsage | undefined): number {
  return usage ? usage.costUsd + usage.outputTokens : 0;
}
