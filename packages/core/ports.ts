import type { EventRecord } from "./event/schema.ts";
import type { Flags } from "./flags/schema.ts";
import type { Key } from "./key/schema.ts";
import type { WarmSandbox } from "./pool/schema.ts";
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
  warm(): string;
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
  /** Its deadline is after this time. */
  deadlineAfter?: number;
  /** The credential to clone with has been handed to no other than this one. */
  cloneNonce?: string;
}

export interface TaskChange {
  set?: Partial<Omit<Task, "id" | "userId" | "sessionKey" | "agent" | "createdAt">>;
  remove?: readonly ("sealed" | "cloneNonce" | "dueAt" | "sandbox" | "startedAt")[];
  phase?: Phase;
  notice?: Notice;
}

/** What must hold of a session: who has it (`null`: nobody ever had), and its epoch where the write is fenced. */
export interface SessionGuard {
  lease?: Lease | null;
  epoch?: number;
}

export interface SessionChange {
  set?: Partial<
    Pick<Session, "lease" | "epoch" | "sandbox" | "tombstones" | "lastUsedAt" | "dueAt" | "expiresAt">
  >;
  remove?: readonly ("sandbox" | "tombstones" | "dueAt")[];
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
  /** The same of sessions, the least recently used first. */
  listDueSessions(now: number, limit: number): Promise<{ userId: string; key: string }[]>;

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

  listWarm(): Promise<WarmSandbox[]>;
  /** False where there is one of that name. */
  createWarm(sandbox: WarmSandbox): Promise<boolean>;
  /** False where it is no longer in that state. */
  changeWarm(name: string, from: WarmSandbox["state"], sandbox: WarmSandbox): Promise<boolean>;
  deleteWarm(name: string, from: WarmSandbox["state"]): Promise<boolean>;
  getWarm(name: string): Promise<WarmSandbox | undefined>;

  getFlags(): Promise<Flags>;
  putFlags(flags: Flags): Promise<void>;

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

export const timerKinds = ["deadline", "inactivity", "terminate", "finalize"] as const;

/** Only a wake-up: what is to be done is read off the task when it fires. */
export interface Timer {
  kind: (typeof timerKinds)[number];
  taskId: string;
  turn: number;
}

export interface Timers {
  /** May come earlier where the queue can not wait that long, and more than once: it is armed again then. */
  arm(timer: Timer, delayMs: number): Promise<void>;
}

/** One provider session of a sandbox: a name alone would follow it through a resume. */
export interface SandboxRef {
  name: string;
  sessionId: string;
}

export interface LiveSandbox extends SandboxRef {
  expiresAt: number;
}

export interface ListedSandbox {
  name: string;
  createdAt: number;
  tags: Readonly<Record<string, string>>;
}

export interface SandboxFile {
  path: string;
  content: string | Uint8Array;
}

/** What a turn's runner last wrote of itself. */
export interface RunnerState {
  lastOutputAt: number | undefined;
  /** It has output that it could not deliver. */
  undelivered: boolean;
  activity: "none" | "model" | "tool";
}

export type SweepResult = "clean" | "alive" | "superseded";

/** A sandbox provider. Nothing here brings a stopped sandbox back. Failures are `ProviderError`s. */
export interface Provider {
  create(options: { name: string; tags: Record<string, string>; timeoutMs: number }): Promise<LiveSandbox>;
  /** The sandbox if it is running now. */
  find(name: string): Promise<LiveSandbox | undefined>;
  /** The sandboxes that carry the stage's tag, a page at a time. */
  list(tags: { stage: string }, cursor?: string): Promise<Page<ListedSandbox>>;
  writeFiles(sandbox: SandboxRef, files: readonly SandboxFile[]): Promise<void>;
  /** Starts a command and does not wait for it. It may be started twice: what it runs must bear that. */
  launch(
    sandbox: SandboxRef,
    command: { cmd: string; args: readonly string[]; env: Record<string, string> },
  ): Promise<string>;
  /**
   * Bars the turn's launch, if it has not happened, and kills everything that began with it or after: `clean` when,
   * twice in a row, nothing of it was left. Where another turn's files have been put there since, nothing is touched:
   * a sweep that comes late must not kill the next turn.
   */
  sweep(sandbox: SandboxRef, runDir: string, options?: { evenIfSuperseded: boolean }): Promise<SweepResult>;
  /** Asks the turn's runner directly, past every callback. */
  ask(sandbox: SandboxRef, runDir: string): Promise<RunnerState | undefined>;
  extend(sandbox: SandboxRef, byMs: number): Promise<void>;
  /** Stops the sandbox and deletes it with all it holds; one that does not exist is as good as deleted. */
  remove(name: string): Promise<void>;
}

export interface GitCredential {
  username: string;
  token: string;
}

/** A git remote, asked without a clone. */
export interface GitRemote {
  /** The commit a branch points at; undefined where there is no such branch. */
  readBranch(url: string, branch: string, credential: GitCredential | undefined): Promise<string | undefined>;
}

/** Things that happened, each counted once where it happened. */
export interface Metrics {
  count(name: MetricName, value?: number): void;
}

export type MetricName =
  | "stop_requested"
  | "stop_proven"
  | "stop_unproven"
  | "stop_ms"
  | "cancellation_told"
  | "health_healthy"
  | "health_gone"
  | "health_unknown"
  | "inactivity_ended"
  | "timeout_ended"
  | "timeout_cleaned"
  | "orphan_deleted";
