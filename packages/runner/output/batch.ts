import {
  type AgentEvent,
  batchMaxBytes,
  batchMaxChunks,
  type OutputChunk,
  type Stream,
} from "@concierge/protocol";

/** A batch of this size is sent at once. */
export const readyBatchBytes = 32 * 1024;

export interface Batcher {
  /** Starts the batch's timer, if it does not run yet. Called even if all bytes are held back. */
  open(nowMs: number): void;
  add(stream: Stream, bytes: Buffer, at: string): void;
  addEvent(event: AgentEvent, at: string): void;
  hasRoomFor(bytes: number): boolean;
  isEmpty(): boolean;
  /** `Infinity` if the batch is not open. */
  dueInMs(nowMs: number): number;
  /** Closes the batch. Undefined if it is empty. */
  take(): OutputChunk[] | undefined;
}

export function createBatcher(batchMs: number): Batcher {
  let chunks: ({ stream: Stream; at: string; parts: Buffer[] } | { at: string; agent: AgentEvent })[] = [];
  let bytes = 0;
  let openedMs: number | undefined;

  return {
    open(nowMs) {
      openedMs ??= nowMs;
    },
    add(stream, data, at) {
      if (data.length === 0) return;
      bytes += data.length;
      const last = chunks.at(-1);
      if (last !== undefined && "stream" in last && last.stream === stream) last.parts.push(data);
      else chunks.push({ stream, at, parts: [data] });
    },
    addEvent(agent, at) {
      bytes += eventBytes(agent);
      chunks.push({ at, agent });
    },
    hasRoomFor: (more) => bytes + more <= batchMaxBytes && chunks.length < batchMaxChunks,
    isEmpty: () => bytes === 0,
    dueInMs(nowMs) {
      if (openedMs === undefined) return Number.POSITIVE_INFINITY;
      if (bytes >= readyBatchBytes) return 0;
      return Math.max(0, openedMs + batchMs - nowMs);
    },
    take() {
      const taken = chunks;
      chunks = [];
      bytes = 0;
      openedMs = undefined;
      if (taken.length === 0) return undefined;
      return taken.map((chunk) => {
        if ("agent" in chunk) return chunk;
        const { stream, at, parts } = chunk;
        return { stream, at, data: Buffer.concat(parts).toString("base64") };
      });
    },
  };
}

/** What an event counts toward the size of a batch. */
export function eventBytes(event: AgentEvent): number {
  return Buffer.byteLength(JSON.stringify(event));
}
