import { maskBytes, maskText } from "@concierge/protocol/mask";
import type { OutputBatch } from "../events/schema.ts";
import { tokenSlackMs } from "../limits.ts";
import type { Sealer } from "../seal.ts";
import type { Task } from "./schema.ts";
import { openSecrets } from "./secrets.ts";

type Chunk = OutputBatch["chunks"][number];

/**
 * What the api never stores of a turn. The runner masks the same values, also where two batches split one; this is for an
 * agent that read the runner's token and posts by itself.
 */
export function turnSecrets(sealer: Sealer, task: Task): string[] {
  const { id: taskId, turn, deadlineAt } = task;
  const { env = {}, git } = openSecrets(sealer, task);
  const basic = git && Buffer.from(`${git.username}:${git.token}`).toString("base64");
  return [
    sealer.issueToken({ taskId, turn, expiresAt: deadlineAt + tokenSlackMs }),
    ...Object.values(env),
    ...(git && basic ? [git.token, basic] : []),
  ];
}

export function maskChunks(secrets: readonly string[], chunks: readonly Chunk[]): Chunk[] {
  return chunks.map((chunk) => {
    if (!("agent" in chunk)) return { ...chunk, data: maskBytes(secrets, Buffer.from(chunk.data)) };
    const masked = Object.entries(chunk.agent).map(([name, value]) => [
      name,
      typeof value === "string" && name !== "kind" ? maskText(secrets, value) : value,
    ]);
    return { ...chunk, agent: Object.fromEntries(masked) };
  });
}

/** Masks the texts that a runner posts beside its output. */
export function maskTexts<T extends { text?: string; detail?: string | undefined }>(
  secrets: readonly string[],
  post: T,
): T {
  const { text, detail } = post;
  return {
    ...post,
    ...(text !== undefined && { text: maskText(secrets, text) }),
    ...(detail !== undefined && { detail: maskText(secrets, detail) }),
  };
}

/** The chunks that fit into what is left of the limit. A chunk is never cut, because that could split a character. */
export function fitChunks(
  chunks: readonly Chunk[],
  leftBytes: number,
): { chunks: Chunk[]; bytes: number; cutBytes: number } {
  const kept: Chunk[] = [];
  let bytes = 0;
  let cutBytes = 0;
  for (const chunk of chunks) {
    const size = sizeOf(chunk);
    if (cutBytes === 0 && bytes + size <= leftBytes) {
      kept.push(chunk);
      bytes += size;
    } else cutBytes += size;
  }
  return { chunks: kept, bytes, cutBytes };
}

function sizeOf(chunk: Chunk): number {
  return "agent" in chunk ? Buffer.byteLength(JSON.stringify(chunk.agent)) : chunk.data.length;
}
