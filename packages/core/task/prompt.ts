import { createHash } from "node:crypto";
import { AppError } from "../errors.ts";
import { inlinePromptMaxBytes } from "../limits.ts";
import type { Ids, Store } from "../ports.ts";
import type { Task } from "./schema.ts";

/** What this turn was asked. */
export async function promptOf(store: Store, task: Task): Promise<string> {
  if (task.prompt !== undefined) return task.prompt;
  const prompt = await store.getPrompt(task.id, { turn: task.turn, key: task.turnKey });
  if (prompt === undefined)
    throw new AppError("internal", `The prompt of ${task.id}/${task.turn} is missing.`);
  return prompt;
}

/**
 * A short prompt is part of the task. It becomes an item of its own with the launch, for the turns to come; a long one is
 * only that, from before the task is written.
 */
export function inlinePrompt(prompt: string): { prompt?: string } {
  return Buffer.byteLength(prompt) <= inlinePromptMaxBytes ? { prompt } : {};
}

/** Stores what a turn is asked, where the task itself has no room for it. */
export async function storePrompt(
  store: Store,
  {
    id,
    turn,
    turnKey,
    prompt: inline,
    expiresAt,
  }: Pick<Task, "id" | "turn" | "turnKey" | "prompt" | "expiresAt">,
  prompt: string,
): Promise<void> {
  if (inline === undefined) await store.putPrompt(id, { turn, key: turnKey }, prompt, expiresAt);
}

/**
 * Says which request a turn is made by: an idempotency key with a hash of the request, or something unique. A retry, ours
 * or the caller's, knows the turn that it made by it.
 */
export function turnKeyOf(
  ids: Pick<Ids, "claim">,
  idempotencyKey: string | undefined,
  requestHash: string,
): string {
  if (idempotencyKey === undefined) return `-${ids.claim()}`;
  return `${short(idempotencyKey)}.${short(requestHash)}`;
}

/** The turn that a request with this key made, if any. A key that came with another request is a conflict. */
export function turnMadeBy(task: Task, turnKey: string): number | undefined {
  const [key] = turnKey.split(".");
  const turns = [...task.past, { turn: task.turn, key: task.turnKey }];
  const made = turns.findLast((turn) => turn.key?.split(".")[0] === key);
  if (!made || made.key === turnKey) return made?.turn;
  throw new AppError("idempotency_conflict", "The idempotency key was used before, with another body.");
}

function short(text: string): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}
