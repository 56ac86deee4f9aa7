import {
  type AgentEvent,
  MAX_BATCH_BYTES,
  MAX_BATCH_CHUNKS,
  type OutputChunk,
  type Stream,
} from "./protocol.ts";

/** A batch of this size does not wait for its time. */
export const READY_BATCH_BYTES = 32 * 1024;

export interface Batcher {
  /** Bytes have arrived, though perhaps all of them are held back: the batch's time runs from here. */
  open(nowMs: number): void;
  add(stream: Stream, bytes: Buffer, at: string): void;
  addEvent(event: AgentEvent, at: string): void;
  hasRoomFor(bytes: number): boolean;
  isEmpty(): boolean;
  /** When to close the batch, from now; `Infinity` where it is not open. */
  dueInMs(nowMs: number): number;
  /** Closes the batch; undefined where there was nothing in it. */
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
      bytes += sizeOf(agent);
      chunks.push({ at, agent });
    },
    hasRoomFor: (more) => bytes + more <= MAX_BATCH_BYTES && chunks.length < MAX_BATCH_CHUNKS,
    isEmpty: () => bytes === 0,
    dueInMs(nowMs) {
      if (openedMs === undefined) return Number.POSITIVE_INFINITY;
      if (bytes >= READY_BATCH_BYTES) return 0;
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

/** What an event takes of a batch. */
export function sizeOf(event: AgentEvent): number {
  return Buffer.byteLength(JSON.stringify(event));
}
