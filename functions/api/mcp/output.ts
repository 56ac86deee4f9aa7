import type { Deps, Task } from "@concierge/core";
import { readOutput } from "@concierge/core/events/read";

/** The end of a task's output, at most `maxBytes` of it. Reads page by page and keeps only that much. */
export async function readTail(
  deps: Deps,
  task: Task,
  { turn, maxBytes }: { turn?: number | undefined; maxBytes: number },
): Promise<{ text: string; truncated: boolean }> {
  let kept: Uint8Array[] = [];
  let bytes = 0;
  let total = 0;
  for await (const chunk of readOutput(deps, task, turn)) {
    kept.push(chunk);
    bytes += chunk.byteLength;
    total += chunk.byteLength;
    if (bytes <= 2 * maxBytes) continue;
    kept = [Buffer.concat(kept).subarray(-maxBytes)];
    bytes = maxBytes;
  }
  const tail = Buffer.concat(kept).subarray(-maxBytes);
  const truncated = total > tail.byteLength;
  const text = tail.toString("utf8");
  // The cut may be inside a character.
  return { text: truncated ? text.replace(/^\uFFFD+/, "") : text, truncated };
}
