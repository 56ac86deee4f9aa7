import { EventEmitter, once } from "node:events";
import { closeSync, existsSync, openSync, readSync, writeSync } from "node:fs";
import { open } from "node:fs/promises";
import { StringDecoder } from "node:string_decoder";
import type { OutputStream } from "../isolation/machine.ts";

const readBytes = 64 * 1024;

/**
 * The output of a running command, stored as the lines that the log route returns. Reads and writes are synchronous: the
 * lines are small and in the page cache, so the thread pool would be slower.
 */
export interface CommandLog {
  append(stream: OutputStream, bytes: Buffer): void;
  /** Flushes incomplete characters and wakes the readers. */
  end(): void;
  /** Yields existing and new output until the end or until `signal` aborts. */
  follow(signal: AbortSignal): AsyncGenerator<Buffer>;
}

/** The first output creates the file. After a disk error the rest of the log is lost, and `onError` is called. */
export function createCommandLog(
  file: string,
  maxBytes: number,
  onError: (error: unknown) => void,
): CommandLog {
  const grown = new EventEmitter().setMaxListeners(0);
  // Lines are JSON text, so a character must not be split between two lines.
  const decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  let descriptor: number | undefined;
  let writtenBytes = 0;
  let acceptedBytes = 0;
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
    writtenBytes += line.length;
    grown.emit("grown");
  }

  return {
    append(stream, bytes) {
      if (ended || acceptedBytes >= maxBytes) return;
      const room = maxBytes - acceptedBytes;
      acceptedBytes += bytes.length;
      write(stream, decoders[stream].write(bytes.length > room ? bytes.subarray(0, room) : bytes));
      if (acceptedBytes >= maxBytes) write("stderr", `\n[log cut at ${maxBytes} bytes]\n`);
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
          if (position < writtenBytes) {
            reader ??= openSync(file, "r");
            const chunk = Buffer.allocUnsafe(Math.min(readBytes, writtenBytes - position));
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

/** The log of a finished command, without the partial last line that a killed API can leave. */
export async function* readCommandLog(file: string): AsyncGenerator<Buffer> {
  if (!existsSync(file)) return;
  const reader = await open(file, "r");
  try {
    let rest = Buffer.alloc(0);
    for (;;) {
      const { buffer, bytesRead } = await reader.read(Buffer.allocUnsafe(readBytes), 0, readBytes);
      if (bytesRead === 0) return;
      const buffered = Buffer.concat([rest, buffer.subarray(0, bytesRead)]);
      const completeBytes = buffered.lastIndexOf("\n") + 1;
      rest = buffered.subarray(completeBytes);
      if (completeBytes > 0) yield buffered.subarray(0, completeBytes);
    }
  } finally {
    await reader.close();
  }
}

// ASCII only: the SDK decodes each chunk of a response separately and would break a character that spans two.
function logLine(stream: OutputStream, data: string): Buffer {
  const json = JSON.stringify({ stream, data }).replace(/[^\0-\x7f]/g, escaped);
  return Buffer.from(`${json}\n`, "latin1");
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
