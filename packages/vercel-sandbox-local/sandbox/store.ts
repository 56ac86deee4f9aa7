import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import { type CommandRecords, openCommandRecords } from "./command-records.ts";
import type { SandboxRecord, SessionRecord, SnapshotRecord } from "./records.ts";

const run = promisify(execFile);

/**
 * The data directory:
 *   sandboxes/<id>.json
 *   sessions/<id>/session.json · commands.ndjson · <command's id>.ndjson · root/{vercel,home,tmp}
 *   snapshots/<id>/snapshot.json · root/…
 *   etc/ (the /etc of all sandboxes) · trash/ (being removed)
 *
 * Records are written synchronously with the change in memory, so that writes cannot finish in the wrong order. A record
 * is a file of lines, and the last complete line counts: writing a new file and renaming it takes some file systems a
 * millisecond. Opening the store compacts each file to one line.
 */
export interface Store {
  readonly dataDir: string;
  readonly sandboxes: Map<string, SandboxRecord>;
  readonly sessions: Map<string, SessionRecord>;
  readonly snapshots: Map<string, SnapshotRecord>;
  saveSandbox(record: SandboxRecord): void;
  saveSession(record: SessionRecord): void;
  saveSnapshot(record: SnapshotRecord): void;
  commands(sessionId: string): CommandRecords;
  removeSandbox(record: SandboxRecord): void;
  sessionRoot(sessionId: string): string;
  snapshotRoot(snapshotId: string): string;
  logFile(sessionId: string, commandId: string): string;
  /** Moves a directory to the trash at once and removes it in the background. */
  discard(directory: string): void;
  close(): Promise<void>;
}

export async function openStore(directory: string, onLog: (line: string) => void): Promise<Store> {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const dataDir = realpathSync(directory);
  const guard = await lockDirectory(dataDir);
  for (const name of ["sandboxes", "sessions", "snapshots", "trash"]) {
    mkdirSync(path.join(dataDir, name), { recursive: true });
  }
  const removals = new Set<Promise<void>>();
  const commands = new Map<string, CommandRecords>();
  const sessionDir = (id: string) => path.join(dataDir, "sessions", id);
  const snapshotDir = (id: string) => path.join(dataDir, "snapshots", id);
  const sandboxFile = (id: string) => path.join(dataDir, "sandboxes", `${id}.json`);

  function discard(target: string): void {
    if (!existsSync(target)) return;
    const out = path.join(dataDir, "trash", randomBytes(8).toString("hex"));
    renameSync(target, out);
    remove(out);
  }

  function remove(out: string): void {
    const removal = removeTree(out)
      .catch((error: unknown) => onLog(`could not remove ${out}: ${String(error)}`))
      .finally(() => removals.delete(removal));
    removals.add(removal);
  }

  const store: Store = {
    dataDir,
    sandboxes: new Map(),
    sessions: new Map(),
    snapshots: new Map(),
    saveSandbox(record) {
      store.sandboxes.set(record.id, record);
      appendRecord(sandboxFile(record.id), record);
    },
    saveSession(record) {
      store.sessions.set(record.id, record);
      appendRecord(path.join(sessionDir(record.id), "session.json"), record);
    },
    saveSnapshot(record) {
      store.snapshots.set(record.id, record);
      appendRecord(path.join(snapshotDir(record.id), "snapshot.json"), record);
    },
    commands(sessionId) {
      const file = path.join(sessionDir(sessionId), "commands.ndjson");
      const records = commands.get(sessionId) ?? openCommandRecords(file, onLog);
      commands.set(sessionId, records);
      return records;
    },
    removeSandbox(record) {
      store.sandboxes.delete(record.id);
      rmSync(sandboxFile(record.id), { force: true });
      for (const session of store.sessions.values()) {
        if (session.sandboxId !== record.id) continue;
        store.sessions.delete(session.id);
        commands.delete(session.id);
        discard(sessionDir(session.id));
      }
    },
    sessionRoot: (id) => path.join(sessionDir(id), "root"),
    snapshotRoot: (id) => path.join(snapshotDir(id), "root"),
    logFile: (sessionId, id) => path.join(sessionDir(sessionId), `${id}.ndjson`),
    discard,
    async close() {
      await Promise.all(removals);
      guard.close();
    },
  };

  for (const name of readdirSync(path.join(dataDir, "trash"))) remove(path.join(dataDir, "trash", name));
  for (const name of readdirSync(path.join(dataDir, "sandboxes"))) {
    if (!name.endsWith(".json")) continue;
    keep(store.sandboxes, readRecord<SandboxRecord>(path.join(dataDir, "sandboxes", name), onLog));
  }
  for (const id of readdirSync(path.join(dataDir, "sessions"))) {
    const session = readRecord<SessionRecord>(path.join(sessionDir(id), "session.json"), onLog);
    if (session) store.sessions.set(id, session);
    // The API was killed after it created the directory and before it wrote the record.
    else discard(sessionDir(id));
  }
  for (const id of readdirSync(path.join(dataDir, "snapshots"))) {
    keep(store.snapshots, readRecord<SnapshotRecord>(path.join(snapshotDir(id), "snapshot.json"), onLog));
  }
  return store;
}

/** Copies a tree with its links, modes and times. */
export async function copyTree(from: string, to: string): Promise<void> {
  await run("cp", ["-a", "--reflink=auto", "--", from, to]);
}

export async function treeBytes(directory: string): Promise<number> {
  // An unreadable directory makes du fail, but it still prints the sum of the rest.
  const { stdout } = await run("du", ["-sb", "--", directory]).catch((error: { stdout?: string }) => ({
    stdout: error.stdout ?? "",
  }));
  return Number.parseInt(stdout, 10) || 0;
}

async function removeTree(directory: string): Promise<void> {
  await run("rm", ["-rf", "--", directory]).catch(async () => {
    // Package caches contain read-only directories.
    await run("chmod", ["-R", "u+rwX", "--", directory]);
    await run("rm", ["-rf", "--", directory]);
  });
}

// Locks with an abstract socket. The kernel releases it with the process, even after a kill.
async function lockDirectory(dataDir: string): Promise<Server> {
  const name = createHash("sha256").update(dataDir).digest("hex").slice(0, 32);
  const guard = createServer();
  await new Promise<void>((resolve, reject) => {
    guard.once("error", (error: NodeJS.ErrnoException) =>
      reject(error.code === "EADDRINUSE" ? new Error(`${dataDir} is in use by another process`) : error),
    );
    guard.listen(`\0vercel-sandbox-local-${name}`, resolve);
  });
  guard.unref();
  return guard;
}

function keep<T extends { id: string }>(map: Map<string, T>, record: T | undefined): void {
  if (record) map.set(record.id, record);
}

function readRecord<T>(file: string, onLog: (line: string) => void): T | undefined {
  try {
    const text = readFileSync(file, "utf8");
    const lines = text.split("\n");
    // The text after the last newline is a partial line, unless there is no newline at all.
    const line = lines.at(-2) ?? text;
    const record: T = JSON.parse(line);
    if (text !== `${line}\n`) replaceFile(file, `${line}\n`);
    return record;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT")
      onLog(`unreadable record ${file}: ${String(error)}`);
    return undefined;
  }
}

function appendRecord(file: string, record: object): void {
  mkdirSync(path.dirname(file), { recursive: true });
  appendFileSync(file, `${JSON.stringify(record)}\n`);
}

function replaceFile(file: string, text: string): void {
  const draft = `${file}.${randomBytes(4).toString("hex")}.tmp`;
  writeFileSync(draft, text);
  renameSync(draft, file);
}
