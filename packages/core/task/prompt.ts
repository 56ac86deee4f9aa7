import { createHash } from "node:crypto";
import { AppError } from "../errors.ts";
import { inlinePromptMaxBytes } from "../limits.ts";
import type { Ids, Store } from "../ports.ts";
import type { Task } from "./schema.ts";

export async function promptOf(store: Store, task: Task): Promise<string> {
  if (task.prompt !== undefined) return task.prompt;
  const prompt = await store.getPrompt(task.id, { turn: task.turn, key: task.turnKey });
  if (prompt === undefined)
    throw new AppError("internal", `The prompt of ${task.id}/${task.turn} is missing.`);
  return prompt;
}

/**
 * A short prompt is part of the task's item and gets its own item at launch. A long one has only its own item, written
 * before the task.
 */
export function inlinePrompt(prompt: string): { prompt?: string } {
  return Buffer.byteLength(prompt) <= inlinePromptMaxBytes ? { prompt } : {};
}

/** Stores a prompt that is too long for the task's item. */
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
 * Names the request that makes a turn: the idempotency key with a hash of the request, or something unique. A retry
 * recognises its own turn by it.
 */
export function turnKeyOf(
  ids: Pick<Ids, "claim">,
  idempotencyKey: string | undefined,
  requestHash: string,
): string {
  if (idempotencyKey === undefined) return `-${ids.claim()}`;
  return `${short(idempotencyKey)}.${short(requestHash)}`;
}

/** The turn that a request with this key made, if any. The same key with a different request is a conflict. */
export function turnMadeBy(task: Task, turnKey: string): number | undefined {
  const [key] = turnKey.split(".");
  const turns = [...task.past, { turn: task.turn, key: task.turnKey }];
  const made = turns.findLast((turn) => turn.key?.split(".")[0] === key);
  if (!made || made.key === turnKey) return made?.turn;
  throw new AppError("idempotency_conflict", "The idempotency key was already used with a different body.");
}

function short(text: string): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}
