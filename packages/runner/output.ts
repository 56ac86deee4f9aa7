import { clean, fitEvent, fitText } from "./agent-event.ts";
import { type Batcher, createBatcher, sizeOf } from "./batch.ts";
import { createMasker, maskText } from "./mask.ts";
import type { AgentEvent, AgentReport, OutputPost, Stream } from "./protocol.ts";
import type { Spool } from "./spool.ts";
import { createTail } from "./tail.ts";
import { incompleteTail } from "./utf8.ts";

/**
 * Larger reads are taken in pieces, so that a piece and what was held back before it always fit in one batch: what is
 * held back may be a secret, and all secrets together come in one variable of less than 128 KB.
 */
const PIECE_BYTES = 16 * 1024;

/** From the agent's bytes to numbered posts: cap, mask, whole characters, batch, spool. */
export interface Output {
  addSecret(secret: string): void;
  write(stream: Stream, bytes: Buffer): void;
  /** What was understood of the bytes that were written before. */
  say(event: AgentEvent): void;
  /** The agent has ended: what is held back and the last batch go out. */
  end(): void;
  /** The oldest post that is not acknowledged, exactly as it was sent before if it was. */
  head(): Buffer | undefined;
  acknowledge(): void;
  /** When `head` will have something though nothing more is written. */
  dueInMs(): number;
  isFull(): boolean;
  progress(): Progress;
  /** What the agent answered; of one that gave no answer what it said last, else the end of stdout. */
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
  /** What is known of the agent, to go with each batch. */
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
  const known = [...secrets];
  const batcher: Batcher = createBatcher(timings.batchMs);
  const tail = createTail();
  const filters = { stdout: createFilter(secrets), stderr: createFilter(secrets) };
  const streams: readonly Stream[] = ["stdout", "stderr"];
  let roomBytes = maxOutputBytes;
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

  /** The turn's first batch does not wait for more. */
  function isFirst(): boolean {
    return producedSeq === 0 && !batcher.isEmpty();
  }

  function dueInMs(): number {
    return spool.size() > 0 || isFirst() ? 0 : batcher.dueInMs(now());
  }

  return {
    addSecret(secret) {
      known.push(secret);
      for (const stream of streams) filters[stream].addSecret(secret);
    },
    write(stream, bytes) {
      lastOutputAt = new Date().toISOString();
      const taken = bytes.subarray(0, roomBytes);
      roomBytes -= taken.length;
      outputCutBytes += bytes.length - taken.length;
      if (taken.length > 0) batcher.open(now());
      for (let start = 0; start < taken.length; start += PIECE_BYTES) {
        emit(stream, filters[stream].push(taken.subarray(start, start + PIECE_BYTES)));
      }
    },
    say(event) {
      const mask = (text: string) => maskText(known, text);
      if ("text" in event && event.kind !== "tool_result" && event.text !== "")
        answer = mask(clean(event.text));
      // Beyond the cap there is only the answer: a turn can not say without end what it may not print.
      if (roomBytes === 0 && outputCutBytes > 0 && event.kind !== "result") return;
      const fitted = fitEvent(event, mask);
      if (!batcher.hasRoomFor(sizeOf(fitted))) seal();
      batcher.open(now());
      batcher.addEvent(fitted, new Date().toISOString());
    },
    end() {
      // Where the output was cut, what is held back may be half a secret: it is cut too.
      for (const stream of streams) {
        if (outputCutBytes > 0) outputCutBytes += filters[stream].heldBytes();
        else emit(stream, filters[stream].end());
      }
      seal();
    },
    head() {
      // While older posts wait, the batch goes on growing up to its bound: fewer and larger posts.
      if (spool.size() === 0 && dueInMs() === 0) {
        if (isFirst()) {
          seal();
          // What is held back has the time of a batch, as ever, for the rest of a secret to come.
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
    text: () => fitText(answer ?? clean(tail.text())),
  };
}

/** The one place every byte of a stream passes before it is stored: secrets out, characters whole. */
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
