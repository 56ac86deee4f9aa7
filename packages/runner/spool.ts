const { closeSync, ftruncateSync, openSync, readSync, unlinkSync, writeSync } =
  process.getBuiltinModule("node:fs");

/** What waits in memory before the disk is used: enough for a Concierge that answers. */
export const MEMORY_WINDOW_BYTES = 1024 * 1024;

/** The posts that are not acknowledged, oldest first. Memory is bounded by the window, the file by `maxBytes`. */
export interface Spool {
  push(body: Buffer): void;
  head(): Buffer | undefined;
  /** Forgets the head. */
  shift(): void;
  size(): number;
  /** No more output may be read: true from reaching a bound until the file is drained. */
  isFull(): boolean;
  close(): void;
}

interface Entry {
  body: Buffer | undefined;
  offset: number;
  length: number;
}

export function createSpool(path: string, maxBytes: number): Spool {
  const entries: Entry[] = [];
  let memoryBytes = 0;
  let fd: number | undefined;
  let fileBytes = 0;
  let entriesOnDisk = 0;
  let full = false;

  function keepInMemory(body: Buffer): void {
    entries.push({ body, offset: 0, length: body.length });
    memoryBytes += body.length;
  }

  function writeToDisk(body: Buffer): void {
    fd ??= openUnlinked(path);
    for (let done = 0; done < body.length; ) {
      done += writeSync(fd, body, done, body.length - done, fileBytes + done);
    }
    entries.push({ body: undefined, offset: fileBytes, length: body.length });
    entriesOnDisk++;
    fileBytes += body.length;
  }

  return {
    push(body) {
      if (memoryBytes + body.length <= MEMORY_WINDOW_BYTES) return keepInMemory(body);
      try {
        writeToDisk(body);
        full ||= fileBytes >= maxBytes;
      } catch {
        // The disk is full, likely by the agent's own doing. Nothing is lost: what was read is kept, no more is read.
        keepInMemory(body);
        full = true;
      }
    },
    head() {
      const entry = entries[0];
      if (entry === undefined || entry.body !== undefined || fd === undefined) return entry?.body;
      const body = Buffer.allocUnsafe(entry.length);
      for (let done = 0; done < body.length; ) {
        const read = readSync(fd, body, done, body.length - done, entry.offset + done);
        if (read === 0) throw new Error("the spool file is shorter than what was written to it");
        done += read;
      }
      return body;
    },
    shift() {
      const entry = entries.shift();
      if (entry === undefined) return;
      if (entry.body !== undefined) {
        memoryBytes -= entry.length;
      } else if (--entriesOnDisk === 0 && fd !== undefined) {
        ftruncateSync(fd, 0);
        fileBytes = 0;
      }
      if (entriesOnDisk === 0 && memoryBytes <= MEMORY_WINDOW_BYTES) full = false;
    },
    size: () => entries.length,
    isFull: () => full,
    close() {
      if (fd !== undefined) closeSync(fd);
      fd = undefined;
    },
  };
}

/** A file without a name: out of the agent's reach, and gone with the runner however that ends. */
function openUnlinked(path: string): number {
  const fd = openSync(path, "wx+", 0o600);
  unlinkSync(path);
  return fd;
}
