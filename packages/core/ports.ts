import type { Base } from "./base/schema.ts";
import type { Counters, UsageRecord } from "./cost/schema.ts";
import type { EventRecord } from "./event/schema.ts";
import type { Flags } from "./flags/schema.ts";
import type { Key } from "./key/schema.ts";
import type { Slot, UnclaimedWarmSandbox, WarmSandbox } from "./pool/schema.ts";
import type { Execution, ExecutionResult, LiveSandbox } from "./ports-provider.ts";
import type { Lease, Session } from "./session/schema.ts";
import type { Notice, Origin, Phase, Status, Task } from "./task/schema.ts";
import type { WebhookEvent } from "./webhook/schema.ts";

export type { MetricName, Metrics } from "./metrics/catalogue.ts";
export type * from "./ports-provider.ts";

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
  /** The end of this turn has not been followed up. */
  uncounted?: number;
  /** So many attempts at its end are on record. */
  attempts?: number;
  /** The reaper is to look at it at exactly this time. */
  dueAt?: number;
}

export interface TaskChange {
  set?: Partial<Omit<Task, "id" | "userId" | "sessionKey" | "agent" | "createdAt">>;
  remove?: readonly (
    | "sealed"
    | "cloneNonce"
    | "dueAt"
    | "sandbox"
    | "startedAt"
    | "usage"
    | "conversation"
    | "prompt"
    | "aliveAt"
    | "reaped"
  )[];
  phase?: Phase;
  notice?: Notice;
}

/** What must hold of a session: who has it (`null`: nobody ever had), and its epoch where the write is fenced. */
export interface SessionGuard {
  lease?: Lease | null;
  /** The turn that has it, however often its lease was renewed. */
  holder?: { taskId: string; turn: number };
  epoch?: number;
  /** Nobody extends or moves its sandbox at this time. */
  notBusyAt?: number;
  /** Its sandbox is still being made, by this one: nobody has taken it into use. */
  maker?: string;
  /** It is there, and was not deleted. */
  isOpen?: true;
  /** Nobody has used it since. */
  lastUsedAt?: number;
  /** Nobody has said since that he uses it. */
  usedUntil?: number;
}

export interface SessionChange {
  set?: Partial<Omit<Session, "userId" | "key" | "createdAt">>;
  remove?: readonly (
    | "sandbox"
    | "lost"
    | "snapshotId"
    | "dueAt"
    | "deletedAt"
    | "environment"
    | "usedUntil"
    | "isIdle"
  )[];
}

export interface Page<T> {
  items: T[];
  /** The id to go on after; none at the end. */
  next: string | undefined;
}

/** Where a prompt is kept: the turn, and the key of the request that made it. */
export interface PromptPosition {
  turn: number;
  /** None where it was written before requests had keys. */
  key: string | undefined;
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
  /**
   * A page of a user's tasks, newest first. A bounded number of requests: where few tasks pass the filter, a page may be
   * short, or empty, and still have a next one.
   */
  listTasks(
    userId: string,
    options: { limit: number; after?: string; status?: Status; sessionKey?: string },
  ): Promise<Page<Task>>;
  /**
   * Tasks that are due, the longest due first; from an index, so each must be read again before anything is done to it.
   * A bounded number of requests, however many are due.
   */
  listDueTasks(now: number, limit: number): Promise<{ id: string; userId: string }[]>;
  /** The same of sessions. */
  listDueSessions(now: number, limit: number): Promise<{ userId: string; key: string }[]>;
  /** Sessions that no turn has, the least recently used first, of one user or of all; from an index, as above. */
  listIdleSessions(limit: number, userId?: string): Promise<{ userId: string; key: string }[]>;

  /** Records are written before what commits them (`outputSeq`), and writing one again changes nothing. */
  putRecord(taskId: string, record: EventRecord, expiresAt: number): Promise<void>;
  /** What a request asked of a turn, for as long as the task is kept. Requests that race for a turn each have their own. */
  putPrompt(taskId: string, position: PromptPosition, prompt: string, expiresAt: number): Promise<void>;
  getPrompt(taskId: string, position: PromptPosition): Promise<string | undefined>;
  /** What was asked before a turn, in order, by every request that raced for one. */
  readPrompts(taskId: string, beforeTurn: number): Promise<(PromptPosition & { prompt: string })[]>;
  /** A page of records in order, from `from` on, itself included. */
  readRecords(
    taskId: string,
    from: RecordPosition,
    toTurn: number,
  ): Promise<{ records: EventRecord[]; more: boolean }>;

  getSession(userId: string, key: string): Promise<Session | undefined>;
  /** A user's, newest first, without those that were deleted. */
  listSessions(userId: string, options: { limit: number; after?: string }): Promise<Page<Session>>;
  /** Creates the session where there is none and the guard asks for no lease. */
  changeSession(
    userId: string,
    key: string,
    guard: SessionGuard,
    change: SessionChange,
  ): Promise<Outcome<Session>>;

  /** Those that nobody has claimed. */
  listWarm(): Promise<UnclaimedWarmSandbox[]>;
  /** False where there is one of that name. */
  createWarm(sandbox: WarmSandbox): Promise<boolean>;
  /** False where it is no longer in that state. */
  changeWarm(name: string, from: WarmSandbox["state"], sandbox: WarmSandbox): Promise<boolean>;
  deleteWarm(name: string, from: WarmSandbox["state"]): Promise<boolean>;
  getWarm(name: string): Promise<WarmSandbox | undefined>;
  /** Every slot, as it is now. */
  listSlots(): Promise<Slot[]>;
  /** A sandbox has one slot; putting it again changes who has it. */
  putSlot(slot: Slot): Promise<void>;
  deleteSlot(name: string): Promise<void>;
  /** Where the last pass of the reaper stopped in the provider's list; none where it had come to its end. */
  getReapCursor(): Promise<string | undefined>;
  putReapCursor(cursor: string | undefined): Promise<void>;
  getBase(): Promise<Base | undefined>;
  /** False where it is not the version that was seen; none was where `seen` is 0. */
  putBase(base: Base, seen: number): Promise<boolean>;
  /** Adds to what a user used on a day, and tells what it then is. */
  addUsage(day: string, userId: string, counters: Counters, expiresAt: number): Promise<UsageRecord>;
  getUsage(day: string, userId: string): Promise<UsageRecord | undefined>;
  listUsage(day: string): Promise<UsageRecord[]>;

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
  /** `attempt` only says how long to wait after the next failure. */
  | { kind: "provision"; taskId: string; turn: number; attempt?: number }
  | { kind: "prepare"; userId: string; sessionKey: string; attempt?: number }
  | { kind: "environment"; userId: string; sessionKey: string; epoch: number }
  | { kind: "ended"; taskId: string; turn: number }
  | { kind: "base"; asked?: boolean }
  | { kind: "warm" }
  | { kind: "webhook"; taskId: string; turn: number; event: WebhookEvent; attempt?: number }
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

export type WebhookOutcome = { kind: "delivered" } | { kind: "failed" | "refused"; detail: string };

/** Tells a user's own address what happened. */
export interface Webhooks {
  send(message: {
    url: string;
    id: string;
    at: number;
    secret: string;
    body: string;
  }): Promise<WebhookOutcome>;
}

export interface GitCredential {
  username: string;
  token: string;
}

/** A git remote, asked without a clone. */
export interface GitRemote {
  /** The commit a branch points at; undefined where there is no such branch. Throws where the remote does not say. */
  readBranch(url: string, branch: string, credential: GitCredential | undefined): Promise<string | undefined>;
}

/** What a turn, or whoever else, gets of a session: its sandbox, ready to be used. */
export interface Room {
  sandbox: LiveSandbox;
  epoch: number;
  origin: Origin;
  /** How long each step of getting it took. */
  steps: Readonly<Record<string, number>>;
  /** Why the session's earlier sandbox could not be used; what was in it is lost unless `kept`. */
  replaced?: { reason: ReplaceReason; kept: boolean } | undefined;
  /** When the session's conversation was begun afresh. */
  resetAt?: number | undefined;
  /** How long it had been kept for nobody. */
  idleMs?: number | undefined;
  /** What is known of its environment is old, or of another sandbox. */
  environmentDue: boolean;
}

export type ReplaceReason = "gone" | "released" | "max_life";

export interface RoomRequest {
  userId: string;
  sessionKey: string;
  /** Until when it must last. */
  until: number;
  /** The turn that has the session's lease. */
  holder: { taskId: string; turn: number };
  /** Asked after each look at the session: a turn that was ended meanwhile gets none. */
  isWanted: () => Promise<boolean>;
  progress: (step: string, detail: string) => Promise<void>;
}

export interface SessionName {
  userId: string;
  sessionKey: string;
}

/** What a look at a session's sandbox found; `unknown` where the provider could not say: then everything is kept. */
export type Health = "healthy" | "resumable" | "gone" | "unknown";

/** Keeps sessions' sandboxes: gives the same where it can, another where it must. */
export interface Sessions {
  /** For a turn: none where the lease, or the wish, went to another meanwhile. */
  getRoom(request: RoomRequest): Promise<Room | "unwanted" | "not the holder">;
  /** For nobody yet. */
  getOrCreateSession(name: SessionName): Promise<unknown>;
  checkHealth(name: SessionName): Promise<Health>;
  extendSession(name: SessionName, durationMs: number): Promise<Session>;
  /** False where a turn has the session. */
  invalidateSession(name: SessionName): Promise<boolean>;
  /** Looks what is in the sandbox, where it is not known or no longer true. */
  refreshEnvironment(name: SessionName): Promise<void>;
  /** In the session's sandbox, made where there is none; so is the session, unless it `mustExist`. */
  exec(name: SessionName, execution: Execution, options?: { mustExist: boolean }): Promise<ExecutionResult>;
}
