import type { Leftover } from "@concierge/protocol";
import { cutTo } from "../bounds.ts";
import { noticeDetailMaxBytes } from "../limits.ts";
import type { AgentUsage, Notice, Task } from "./schema.ts";

/** What the adapter knows so far about the agent's usage and conversation, and what earlier turns left running. */
export interface AgentReport {
  usage?: AgentUsage | undefined;
  conversationId?: string | undefined;
  leftovers?: readonly Leftover[] | undefined;
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

/** Tells the user once per turn what earlier turns left running, and what was ended. */
export function leftoversNotice(
  { turn, notices }: Pick<Task, "turn" | "notices">,
  { leftovers = [] }: AgentReport,
  at: number,
): { notice?: Notice } {
  const isKnown = notices.some((one) => one.code === "leftovers" && one.turn === turn);
  if (leftovers.length === 0 || isKnown) return {};
  const listed = leftovers.map(
    ({ program, pid, taskId, turn: of, ended }) =>
      `${program} (process ${pid} of ${taskId}, turn ${of}) ${ended ? "was ended" : "keeps running"}`,
  );
  const detail = cutTo(noticeDetailMaxBytes, `Left by earlier turns: ${listed.join("; ")}.`);
  return { notice: { code: "leftovers", detail, turn, at } };
}
