import { closeSync, existsSync, fstatSync, openSync, readFileSync, readSync, writeSync } from "node:fs";
import type { CommandRecord } from "./records.ts";

/**
 * The commands of one session in one append-only file, with a line for each start and each exit. A file per command
 * would be the slowest part of running it. Memory holds only the positions of the lines.
 */
export interface CommandRecords {
  start(record: CommandRecord): void;
  exit(record: CommandRecord): void;
  read(id: string): CommandRecord | undefined;
}

type Exit = Pick<CommandRecord, "id" | "exitCode" | "durationMs">;

interface Place {
  offset: number;
  length: number;
  exit?: Exit;
}

export function openCommandRecords(file: string, onLog: (line: string) => void): CommandRecords {
  const places = new Map<string, Place>();
  if (existsSync(file)) index(readFileSync(file));

  function index(bytes: Buffer): void {
    // Skip the partial last line that a killed API can leave.
    for (let offset = 0, end = 0; ; offset = end) {
      end = bytes.indexOf("\n", offset) + 1;
      if (end === 0) return;
      try {
        note(JSON.parse(bytes.toString("utf8", offset, end)), offset, end - offset);
      } catch (error) {
        onLog(`unreadable line in ${file}: ${String(error)}`);
      }
    }
  }

  function note(line: CommandRecord | Exit, offset: number, length: number): void {
    const started = places.get(line.id);
    if (started) started.exit = line;
    else places.set(line.id, { offset, length });
  }

  function append(line: CommandRecord | Exit): void {
    const bytes = Buffer.from(`${JSON.stringify(line)}\n`);
    const descriptor = openSync(file, "a");
    try {
      const { size } = fstatSync(descriptor);
      writeSync(descriptor, bytes);
      note(line, size, bytes.length);
    } finally {
      closeSync(descriptor);
    }
  }

  return {
    start: append,
    exit: ({ id, exitCode, durationMs }) => append({ id, exitCode, durationMs }),
    read(id) {
      const place = places.get(id);
      if (!place) return undefined;
      const bytes = Buffer.alloc(place.length);
      const descriptor = openSync(file, "r");
      try {
        readSync(descriptor, bytes, 0, bytes.length, place.offset);
      } finally {
        closeSync(descriptor);
      }
      return { ...JSON.parse(bytes.toString("utf8")), ...place.exit };
    },
  };
}
