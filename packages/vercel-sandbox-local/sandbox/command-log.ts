import { EventEmitter, once } from "node:events";
import { existsSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { StringDecoder } from "node:string_decoder";
import type { OutputStream } from "../isolation/machine.ts";

const READ_BYTES = 64 * 1024;

/** The output of a running command, on disk in the very lines the log route answers with. */
export interface CommandLog {
  append(stream: OutputStream, bytes: Buffer): Promise<void>;
  /** No more comes. Flushes what was half a character and wakes the readers. */
  end(): Promise<void>;
  /** What is there, and then what comes, until the end or until `signal`. */
  follow(signal: AbortSignal): AsyncGenerator<Buffer>;
}

export async function createCommandLog(file: string, maxBytes: number): Promise<CommandLog> {
  const handle = await open(file, "a");
  const grown = new EventEmitter().setMaxListeners(0);
  // Characters are not split between lines: the wire is JSON text, and half of one would be lost for good.
  const decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  let committed = 0;
  let taken = 0;
  let ended = false;

  async function write(stream: OutputStream, data: string): Promise<void> {
    if (data === "") return;
    const { bytesWritten } = await handle.write(logLine(stream, data));
    committed += bytesWritten;
    grown.emit("grown");
  }

  return {
    async append(stream, bytes) {
      if (ended || taken >= maxBytes) return;
      const room = maxBytes - taken;
      taken += bytes.length;
      await write(stream, decoders[stream].write(bytes.length > room ? bytes.subarray(0, room) : bytes));
      if (taken >= maxBytes) await write("stderr", `\n[log cut at ${maxBytes} bytes]\n`);
    },
    async end() {
      if (ended) return;
      await write("stdout", decoders.stdout.end());
      await write("stderr", decoders.stderr.end());
      ended = true;
      await handle.close();
      grown.emit("grown");
    },
    async *follow(signal) {
      const reader = await open(file, "r");
      try {
        for (let position = 0; ; ) {
          const chunk = await readChunk(reader, position, committed);
          position += chunk.length;
          if (chunk.length > 0) yield chunk;
          if (position < committed) continue;
          if (ended || signal.aborted) return;
          await once(grown, "grown", { signal }).catch(() => {});
        }
      } finally {
        await reader.close();
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
    for (let position = 0; ; ) {
      const chunk = await readChunk(reader, position, Number.MAX_SAFE_INTEGER);
      if (chunk.length === 0) return;
      position += chunk.length;
      const held = Buffer.concat([rest, chunk]);
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

async function readChunk(reader: FileHandle, position: number, end: number): Promise<Buffer> {
  const length = Math.min(READ_BYTES, end - position);
  if (length <= 0) return Buffer.alloc(0);
  const { buffer, bytesRead } = await reader.read(Buffer.allocUnsafe(length), 0, length, position);
  return buffer.subarray(0, bytesRead);
}
