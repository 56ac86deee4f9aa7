import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type LocalStackOptions, startLocalStack } from "../index.ts";
import { readNotes } from "./notes.ts";
import { fixtureTopology } from "./topology.ts";

export async function temporaryDirectory() {
  const path = await mkdtemp(join(tmpdir(), "concierge-dev-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A stack in a temporary directory. Both are removed at the end of the test. */
export async function startFixture(options: Partial<LocalStackOptions> = {}) {
  const directory = await temporaryDirectory();
  const notes = join(directory.path, "notes");
  const log: string[] = [];
  const stack = await startLocalStack({
    topology: fixtureTopology(),
    dataDir: join(directory.path, "data"),
    onLog: (line) => log.push(line),
    ...options,
    env: { PATH: process.env.PATH, FIXTURE_NOTES: notes, ...options.env },
  }).catch(async (error) => {
    await directory[Symbol.asyncDispose]();
    throw error;
  });
  return {
    ...stack,
    log,
    notesFile: notes,
    notes: <Note>() => readNotes<Note>(notes),
    async [Symbol.asyncDispose]() {
      await stack.close();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** Polls until the check is true. */
export async function until<T>(
  check: () => T | Promise<T>,
  what: string,
  timeoutMs = 15_000,
): Promise<Exclude<T, false | undefined>> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const result = await check();
    if (result) return result as Exclude<T, false | undefined>;
    if (Date.now() > deadline) throw new Error(`${what}: not within ${timeoutMs} ms`);
    await new Promise((next) => setTimeout(next, 20));
  }
}
