import {
  type AgentEvent,
  type AgentReport,
  type OutputPost,
  type Stream,
  streams,
} from "@concierge/protocol";
import { createMasker, maskText } from "@concierge/protocol/mask";
import { fitEvent, fitText, stripAnsi } from "./agent-event.ts";
import { createBatcher, eventBytes } from "./batch.ts";
import type { Spool } from "./spool.ts";
import { createTail } from "./tail.ts";
import { incompleteTail } from "./utf8.ts";

/**
 * Larger reads are split, so that a piece always fits into one batch together with the bytes held back before it. Those
 * are shorter than a secret, and all secrets come in one variable of at most 128 KB.
 */
const pieceBytes = 16 * 1024;

/** Turns the agent's bytes into numbered posts: cap, mask, keep characters whole, batch, spool. */
export interface Output {
  addSecret(secret: string): void;
  write(stream: Stream, bytes: Buffer): void;
  /** Adds what an adapter understood of the bytes written before. */
  addEvent(event: AgentEvent): void;
  /** The agent has ended: flushes held bytes and the last batch. */
  end(): void;
  /** The oldest unacknowledged post. A retry has the same bytes. */
  head(): Buffer | undefined;
  acknowledge(): void;
  /** When `head` will return a post, even if nothing more is written. */
  dueInMs(): number;
  isFull(): boolean;
  progress(): Progress;
  /** The agent's answer, or else its last text, or else the end of stdout. */
  text(): string;
}

export interface Progress {
  producedSeq: number;
  ackedSeq: number;
  lastOutputAt: string | null;
  outputCutBytes: number;
}

export interface OutputOptions {
  secrets: readonly string[];
  maxOutputBytes: number;
  timings: { batchMs: number };
  spool: Spool;
  /** Sent with each batch. */
  report?: () => AgentReport;
  /** Monotonic milliseconds. */
  now: () => number;
}

export function createOutput({
  secrets,
  maxOutputBytes,
  timings,
  spool,
  report = () => ({}),
  now,
}: OutputOptions): Output {
  const allSecrets = [...secrets];
  const batcher = createBatcher(timings.batchMs);
  const tail = createTail();
  const filters = { stdout: createFilter(secrets), stderr: createFilter(secrets) };
  let leftBytes = maxOutputBytes;
  let outputCutBytes = 0;
  let producedSeq = 0;
  let lastOutputAt: string | null = null;
  let answer: string | undefined;

  function emit(stream: Stream, bytes: Buffer): void {
    if (bytes.length === 0) return;
    if (!batcher.hasRoomFor(bytes.length)) seal();
    batcher.open(now());
    batcher.add(stream, bytes, lastOutputAt ?? new Date().toISOString());
    if (stream === "stdout") tail.add(bytes);
  }

  function seal(): void {
    const chunks = batcher.take();
    if (chunks === undefined) return;
    const post: OutputPost = { seq: ++producedSeq, chunks, ...report() };
    spool.push(Buffer.from(JSON.stringify(post)));
  }

  /** The turn's first batch is sent without delay. */
  function isFirst(): boolean {
    return producedSeq === 0 && !batcher.isEmpty();
  }

  function dueInMs(): number {
    return spool.size() > 0 || isFirst() ? 0 : batcher.dueInMs(now());
  }

  return {
    addSecret(secret) {
      allSecrets.push(secret);
      for (const stream of streams) filters[stream].addSecret(secret);
    },
    write(stream, bytes) {
      lastOutputAt = new Date().toISOString();
      const taken = bytes.subarray(0, leftBytes);
      leftBytes -= taken.length;
      outputCutBytes += bytes.length - taken.length;
      if (taken.length > 0) batcher.open(now());
      for (let start = 0; start < taken.length; start += pieceBytes) {
        emit(stream, filters[stream].push(taken.subarray(start, start + pieceBytes)));
      }
    },
    addEvent(event) {
      const mask = (text: string) => maskText(allSecrets, text);
      if ("text" in event && event.kind !== "tool_result" && event.text !== "")
        answer = mask(stripAnsi(event.text));
      // The cap holds for events, too. Only the answer passes.
      if (leftBytes === 0 && outputCutBytes > 0 && event.kind !== "result") return;
      const fitted = fitEvent(event, mask);
      if (!batcher.hasRoomFor(eventBytes(fitted))) seal();
      batcher.open(now());
      batcher.addEvent(fitted, new Date().toISOString());
    },
    end() {
      // If the output was cut, the held bytes may be half a secret. Cut them, too.
      for (const stream of streams) {
        if (outputCutBytes > 0) outputCutBytes += filters[stream].heldBytes();
        else emit(stream, filters[stream].end());
      }
      seal();
    },
    head() {
      // While older posts wait, the batch keeps growing: fewer and larger posts.
      if (spool.size() === 0 && dueInMs() === 0) {
        if (isFirst()) {
          seal();
          // Held bytes wait for the rest of a secret as long as a batch takes.
          batcher.open(now());
        } else {
          for (const stream of streams) emit(stream, filters[stream].release());
          seal();
        }
      }
      return spool.head();
    },
    acknowledge: () => spool.shift(),
    dueInMs,
    isFull: () => spool.isFull(),
    progress: () => ({ producedSeq, ackedSeq: producedSeq - spool.size(), lastOutputAt, outputCutBytes }),
    text: () => fitText(answer ?? stripAnsi(tail.text())),
  };
}

/** Every byte of a stream passes here before it is stored: masks secrets, keeps characters whole. */
function createFilter(secrets: readonly string[]) {
  const masker = createMasker(secrets);
  let partial: Buffer = Buffer.alloc(0);

  function whole(bytes: Buffer): Buffer {
    const data = partial.length === 0 ? bytes : Buffer.concat([partial, bytes]);
    const cut = data.length - incompleteTail(data);
    partial = Buffer.from(data.subarray(cut));
    return data.subarray(0, cut);
  }

  return {
    addSecret: (secret: string): void => masker.add(secret),
    push: (bytes: Buffer): Buffer => whole(masker.push(bytes)),
    release: (): Buffer => whole(masker.release()),
    end: (): Buffer => Buffer.concat([partial, masker.end()]),
    heldBytes: (): number => partial.length + masker.heldBytes(),
  };
}
