import { cutTo } from "../bounds.ts";
import type { Deps } from "../deps.ts";
import { replayMaxBytes, replayPartMaxBytes } from "../limits.ts";
import type { Room } from "../ports.ts";
import type { Task } from "./schema.ts";

export interface Memory {
  /** The agent's own conversation, which the sandbox still has. */
  conversationId?: string | undefined;
  /** What the agent is told of the turns before, where it can not remember them itself. */
  replay?: string | undefined;
  lost: readonly ("conversation" | "files")[];
}

/** What a turn's agent remembers: its own conversation where the sandbox has it, else what the table kept of it. */
export async function remember(deps: Deps, task: Task, room: Room): Promise<Memory> {
  const { turn, conversation, agent } = task;
  if (turn === 1 || agent === "shell") return { lost: lostOf(room, turn, false) };
  const isReset = (room.resetAt ?? 0) > (conversation?.at ?? task.createdAt);
  if (isReset) return { lost: lostOf(room, turn, false) };
  if (conversation && isKept(room)) return { conversationId: conversation.id, lost: [] };
  return { replay: await replayOf(deps, task), lost: lostOf(room, turn, conversation !== undefined) };
}

function isKept({ origin, replaced }: Room): boolean {
  return origin === "reused" || origin === "resumed" || replaced?.kept === true;
}

function lostOf(room: Room, turn: number, conversation: boolean): Memory["lost"] {
  if (turn === 1 || isKept(room)) return [];
  return [
    ...(conversation ? (["conversation"] as const) : []),
    ...(room.replaced ? (["files"] as const) : []),
  ];
}

/** The newest turns that fit, oldest first, with a word to the agent that this is not its own memory. */
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
  return `This conversation began in another sandbox, which is gone. What follows is a replay of it, not your own memory; files that were not pushed are no longer there.${cutOff}\n\n${turns.join("\n\n")}\n\nThe user now says:\n\n`;
}

/** Enough of the end of a turn's batches to hold what the agent answered. */
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
