import { EventEmitter, once } from "node:events";
import { closeSync, existsSync, openSync, readSync, writeSync } from "node:fs";
import { open } from "node:fs/promises";
import { StringDecoder } from "node:string_decoder";
import type { OutputStream } from "../isolation/machine.ts";

const READ_BYTES = 64 * 1024;

/**
 * The output of a running command, on disk in the very lines the log route answers with. Written and read in the
 * tick it comes in: the lines are small and in the page cache, and a thread's turn takes longer than they do.
 */
export interface CommandLog {
  append(stream: OutputStream, bytes: Buffer): void;
  /** No more comes. Flushes what was half a character and wakes the readers. */
  end(): void;
  /** What is there, and then what comes, until the end or until `signal`. */
  follow(signal: AbortSignal): AsyncGenerator<Buffer>;
}

/** The file is made by the first output. A disk that fails costs the rest of the log, and `onError` hears of it. */
export function createCommandLog(
  file: string,
  maxBytes: number,
  onError: (error: unknown) => void,
): CommandLog {
  const grown = new EventEmitter().setMaxListeners(0);
  // Characters are not split between lines: the wire is JSON text, and half of one would be lost for good.
  const decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  let descriptor: number | undefined;
  let committed = 0;
  let taken = 0;
  let ended = false;
  let broken = false;

  function write(stream: OutputStream, data: string): void {
    if (data === "" || broken) return;
    const line = logLine(stream, data);
    try {
      descriptor ??= openSync(file, "a");
      for (let done = 0; done < line.length; ) done += writeSync(descriptor, line, done);
    } catch (error) {
      broken = true;
      onError(error);
      return;
    }
    committed += line.length;
    grown.emit("grown");
  }

  return {
    append(stream, bytes) {
      if (ended || taken >= maxBytes) return;
      const room = maxBytes - taken;
      taken += bytes.length;
      write(stream, decoders[stream].write(bytes.length > room ? bytes.subarray(0, room) : bytes));
      if (taken >= maxBytes) write("stderr", `\n[log cut at ${maxBytes} bytes]\n`);
    },
    end() {
      if (ended) return;
      write("stdout", decoders.stdout.end());
      write("stderr", decoders.stderr.end());
      ended = true;
      if (descriptor !== undefined) closeSync(descriptor);
      grown.emit("grown");
    },
    async *follow(signal) {
      let reader: number | undefined;
      try {
        for (let position = 0; ; ) {
          if (position < committed) {
            reader ??= openSync(file, "r");
            const chunk = Buffer.allocUnsafe(Math.min(READ_BYTES, committed - position));
            const bytesRead = readSync(reader, chunk, 0, chunk.length, position);
            position += bytesRead;
            yield chunk.subarray(0, bytesRead);
            continue;
          }
          if (ended || signal.aborted) return;
          await once(grown, "grown", { signal }).catch(() => {});
        }
      } finally {
        if (reader !== undefined) closeSync(reader);
      }
    },
  };
}

/** The log of a command that is over. An API that was killed may have left half a line at the end: not that. */
export async function* readCommandLog(file: string): AsyncGenerator<Buffer> {
  if (!existsSync(file)) return;
  const reader = await open(file, "r");
  try {
    let rest = Buffer.alloc(0);
    for (;;) {
      const { buffer, bytesRead } = await reader.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES);
      if (bytesRead === 0) return;
      const held = Buffer.concat([rest, buffer.subarray(0, bytesRead)]);
      const whole = held.lastIndexOf("\n") + 1;
      rest = held.subarray(whole);
      if (whole > 0) yield held.subarray(0, whole);
    }
  } finally {
    await reader.close();
  }
}

// In ASCII alone: the SDK decodes each piece of a response by itself, and would break a longer character that
// two pieces share.
function logLine(stream: OutputStream, data: string): Buffer {
  const json = JSON.stringify({ stream, data }).replace(/[^\0-\x7f]/g, escaped);
  return Buffer.from(`${json}\n`, "latin1");
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
