import { cutTo } from "../bounds.ts";
import type { Deps } from "../deps.ts";
import { replayMaxBytes, replayPartMaxBytes } from "../limits.ts";
import type { AcquiredSandbox } from "../session/acquire.ts";
import type { Task } from "./schema.ts";

export interface Memory {
  /** The agent's own conversation, if the sandbox still has it. */
  conversationId?: string | undefined;
  /** Earlier turns for an agent that cannot remember them. */
  replay?: string | undefined;
  lost: readonly ("conversation" | "files")[];
}

/** What the agent remembers: its own conversation if the sandbox has it, otherwise a replay from the table. */
export async function remember(deps: Deps, task: Task, acquired: AcquiredSandbox): Promise<Memory> {
  const { turn, conversation, agent } = task;
  if (turn === 1 || agent === "shell") return { lost: lostOf(acquired, turn, false) };
  const isReset = (acquired.resetAt ?? 0) > (conversation?.at ?? task.createdAt);
  if (isReset) return { lost: lostOf(acquired, turn, false) };
  if (conversation && isKept(acquired)) return { conversationId: conversation.id, lost: [] };
  return { replay: await replayOf(deps, task), lost: lostOf(acquired, turn, conversation !== undefined) };
}

function isKept({ origin, replaced }: AcquiredSandbox): boolean {
  return origin === "reused" || origin === "resumed" || replaced?.kept === true;
}

function lostOf(acquired: AcquiredSandbox, turn: number, conversation: boolean): Memory["lost"] {
  if (turn === 1 || isKept(acquired)) return [];
  return [
    ...(conversation ? (["conversation"] as const) : []),
    ...(acquired.replaced ? (["files"] as const) : []),
  ];
}

/** The newest turns that fit, oldest first. Tells the agent that this is a replay, not its own memory. */
async function replayOf(deps: Deps, task: Task): Promise<string | undefined> {
  const asked = await deps.store.readPrompts(task.id, task.turn);
  // Requests that lost the race for a turn left their prompts behind.
  const prompts = asked.filter(({ turn, key }) => key === task.past.find((past) => past.turn === turn)?.key);
  const turns: string[] = [];
  let bytes = 0;
  for (const { turn, prompt } of prompts.toReversed()) {
    const answer = await answerOf(deps, task, turn);
    const text = `<turn number="${turn}">\nUser: ${cut(prompt)}\n\nYou: ${cut(answer) || "(no answer)"}\n</turn>`;
    bytes += Buffer.byteLength(text);
    if (bytes > replayMaxBytes) break;
    turns.unshift(text);
  }
  if (turns.length === 0) return undefined;
  const left = prompts.length - turns.length;
  const cutOff = left > 0 ? ` The ${left} oldest turns are left out.` : "";
  return `This conversation began in another sandbox that no longer exists. The following is a replay, not your own memory. Files that were not pushed are lost.${cutOff}\n\n${turns.join("\n\n")}\n\nThe user now says:\n\n`;
}

/** Enough of a turn's last batches to contain the agent's answer. */
const batchesRead = 3;

async function answerOf({ store }: Deps, task: Task, turn: number): Promise<string> {
  const last = task.past.find((past) => past.turn === turn)?.outputSeq ?? 0;
  if (last === 0) return "";
  const from = { turn, kind: "output", seq: Math.max(last - batchesRead + 1, 1) } as const;
  const { records } = await store.readRecords(task.id, from, turn);
  const chunks = records.flatMap((record) =>
    record.kind === "output" && record.seq <= last ? record.chunks : [],
  );
  const said = chunks.flatMap((chunk) => ("agent" in chunk ? [chunk.agent] : []));
  const result = said.findLast((event) => event.kind === "result");
  if (result) return result.text;
  const texts = said.flatMap((event) => (event.kind === "text" ? [event.text] : []));
  return texts.join("\n");
}

function cut(text: string): string {
  return cutTo(replayPartMaxBytes, text, "… (cut)");
}
