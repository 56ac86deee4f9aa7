import type { EventRecord } from "./event/schema.ts";
import type { Key } from "./key/schema.ts";
import type { Lease, Session } from "./session/schema.ts";
import type { Notice, Phase, Status, Task } from "./task/schema.ts";

export interface Clock {
  now(): number;
  /** Ends early, without an error, when the signal is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface Ids {
  task(): string;
  key(): string;
  claim(): string;
}

/** A conditional write either wins, and gives the item as it now is, or loses to the item as it is. */
export type Outcome<T> = { won: true; item: T } | { won: false; item: T | undefined };

/** What must hold of a task for a write to win: always its turn, mostly its status. */
export interface TaskGuard {
  turn: number;
  status: readonly Status[];
  /** The claim on it ran out before this time. */
  claimUntilBefore?: number;
  claimId?: string;
  outputSeq?: number;
}

export interface TaskChange {
  set?: Partial<
    Pick<
      Task,
      | "state"
      | "sandbox"
      | "deadlineAt"
      | "lastActivityAt"
      | "startedAt"
      | "outputSeq"
      | "dueAt"
      | "expiresAt"
    >
  >;
  remove?: readonly ("sealedEnv" | "dueAt" | "sandbox")[];
  phase?: Phase;
  notice?: Notice;
}

/** What must hold of a session: who has it (`null`: nobody ever had), and its epoch where the write is fenced. */
export interface SessionGuard {
  lease?: Lease | null;
  epoch?: number;
}

export interface SessionChange {
  set?: Partial<Pick<Session, "lease" | "epoch" | "sandbox" | "lastUsedAt" | "dueAt" | "expiresAt">>;
  remove?: readonly ("sandbox" | "dueAt")[];
}

export interface Page<T> {
  items: T[];
  /** The id to go on after; none at the end. */
  next: string | undefined;
}

/** Where a reader of a task's records stands: after this record, or at the beginning. */
export interface RecordPosition {
  turn: number;
  kind: EventRecord["kind"];
  seq: number;
}

export interface IdempotencyRecord {
  requestHash: string;
  taskId: string;
  turn: number;
  expiresAt: number;
}

export interface Store {
  getTask(id: string): Promise<Task | undefined>;
  createTask(task: Task): Promise<Outcome<Task>>;
  changeTask(id: string, guard: TaskGuard, change: TaskChange): Promise<Outcome<Task>>;
  listTasks(
    userId: string,
    options: { limit: number; after?: string; status?: Status; sessionKey?: string },
  ): Promise<Page<Task>>;
  /** Ids of tasks that are due; from an index, so each must be read again before anything is done to it. */
  listDueTasks(now: number, limit: number): Promise<string[]>;

  /** Records are written before what commits them (`outputSeq`), and writing one again changes nothing. */
  putRecord(taskId: string, record: EventRecord, expiresAt: number): Promise<void>;
  /** A page of records in order, from `from` on, itself included. */
  readRecords(
    taskId: string,
    from: RecordPosition,
    toTurn: number,
  ): Promise<{ records: EventRecord[]; more: boolean }>;

  getSession(userId: string, key: string): Promise<Session | undefined>;
  /** Creates the session where there is none and the guard asks for no lease. */
  changeSession(
    userId: string,
    key: string,
    guard: SessionGuard,
    change: SessionChange,
  ): Promise<Outcome<Session>>;

  getKey(id: string): Promise<Key | undefined>;
  createKey(key: Key): Promise<Outcome<Key>>;
  listKeys(options: { limit: number; after?: string }): Promise<Page<Key>>;
  deleteKey(id: string): Promise<boolean>;

  /** The first to use a key wins it; a record that has expired is as good as none. */
  claimIdempotencyKey(scope: string, record: IdempotencyRecord): Promise<Outcome<IdempotencyRecord>>;
}

export type WorkMessage =
  | { kind: "provision"; taskId: string; turn: number }
  | { kind: "release"; userId: string; sessionKey: string; epoch: number };

export interface WorkQueue {
  send(message: WorkMessage, delayMs?: number): Promise<void>;
}

/** One provider session of a sandbox: a name alone would follow it through a resume. */
export interface SandboxRef {
  name: string;
  sessionId: string;
}

export interface LiveSandbox extends SandboxRef {
  expiresAt: number;
}

export interface SandboxFile {
  path: string;
  content: string | Uint8Array;
}

/** A sandbox provider. Nothing here brings a stopped sandbox back. Failures are `ProviderError`s. */
export interface Provider {
  create(options: { name: string; tags: Record<string, string>; timeoutMs: number }): Promise<LiveSandbox>;
  /** The sandbox if it is running now. */
  find(name: string): Promise<LiveSandbox | undefined>;
  writeFiles(sandbox: SandboxRef, files: readonly SandboxFile[]): Promise<void>;
  /** Starts a command and does not wait for it. It may be started twice: what it runs must bear that. */
  launch(
    sandbox: SandboxRef,
    command: { cmd: string; args: readonly string[]; env: Record<string, string> },
  ): Promise<string>;
  extend(sandbox: SandboxRef, byMs: number): Promise<void>;
  /** Stops the sandbox and deletes it with all it holds; one that does not exist is as good as deleted. */
  remove(name: string): Promise<void>;
}
