import type { AgentUsage, Task } from "./schema.ts";

/** What a runner's adapter has understood so far of what its agent used, and which conversation it is in. */
export interface AgentReport {
  usage?: AgentUsage | undefined;
  conversationId?: string | undefined;
}

/** What the runner says of its agent, as far as it is new. */
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
