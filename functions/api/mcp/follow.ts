import { getTask, isTerminal, type Task, type TaskEvent } from "@concierge/core";
import { formatCursor, parseCursor } from "@concierge/core/events/cursor";
import { readEvents } from "@concierge/core/events/read";
import type { ToolContext } from "./tools.ts";

const pollMs = 300;
const messageMaxLength = 200;

/** Waits up to `waitMs` for the turn's end and reports what happens meanwhile. Returns the newest task. */
export async function followTask(context: ToolContext, task: Task, waitMs = 0): Promise<Task> {
  const { deps, userId, notify } = context;
  const until = deps.clock.now() + waitMs;
  let found = task;
  let cursor = formatCursor(parseCursor(undefined));
  while (waitMs > 0) {
    const page = await readEvents(deps, found, parseCursor(cursor));
    const news = page.items.filter(({ turn }) => turn === task.turn).flatMap(describe);
    for (const message of new Set(news)) await notify(message);
    cursor = page.cursor;
    const leftMs = until - deps.clock.now();
    if (isTerminal(found.state.status) || leftMs <= 0) break;
    if (!page.more) await deps.clock.sleep(Math.min(pollMs, leftMs));
    found = await getTask(deps, userId, task.id);
  }
  return found;
}

/** One line per event. Output is cut: get_output has it. */
function describe(event: TaskEvent): string[] {
  switch (event.type) {
    case "status":
      return [event.note ? `${event.status}: ${event.note}` : event.status];
    case "progress":
      return [`${event.step}: ${event.detail}`];
    case "output":
      return [cut(event.text.trimEnd().split("\n").at(-1) ?? "")].filter(Boolean);
    case "agent":
    case "notice":
      return [];
  }
}

function cut(text: string): string {
  return text.length > messageMaxLength ? `${text.slice(0, messageMaxLength - 1)}…` : text;
}
