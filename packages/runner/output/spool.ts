import { closeSync, ftruncateSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";

/** How much is kept in memory before the disk is used. Enough while Concierge answers. */
export const memoryWindowBytes = 1024 * 1024;

/** The unacknowledged posts, oldest first. Memory is bounded by the window, the file by `maxBytes`. */
export interface Spool {
  push(body: Buffer): void;
  head(): Buffer | undefined;
  /** Removes the head. */
  shift(): void;
  size(): number;
  /** Reading must pause. True from when a bound is reached until the file is drained. */
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
      if (memoryBytes + body.length <= memoryWindowBytes) return keepInMemory(body);
      try {
        writeToDisk(body);
        full ||= fileBytes >= maxBytes;
      } catch {
        // The disk is full. Keep what was read in memory and stop reading, so that nothing is lost.
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
        if (read === 0) throw new Error("the spool file was truncated");
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
      if (entriesOnDisk === 0 && memoryBytes <= memoryWindowBytes) full = false;
    },
    size: () => entries.length,
    isFull: () => full,
    close() {
      if (fd !== undefined) closeSync(fd);
      fd = undefined;
    },
  };
}

/** An unlinked file: the agent cannot open it, and it disappears with the runner. */
function openUnlinked(path: string): number {
  const fd = openSync(path, "wx+", 0o600);
  unlinkSync(path);
  return fd;
}
