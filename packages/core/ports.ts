import type { AuditEntry } from "./audit/schema.ts";
import type { BaseSnapshot } from "./base-snapshot/schema.ts";
import type { Slot, UnclaimedWarmSandbox, WarmSandbox } from "./capacity/schema.ts";
import type { EventRecord } from "./events/schema.ts";
import type { Flags } from "./flags/schema.ts";
import type { Key } from "./keys/schema.ts";
import type { HourCounters } from "./metrics/schema.ts";
import type { Lease, Session } from "./session/schema.ts";
import type { Notice, Phase, Status, Task } from "./task/schema.ts";
import type { Counters, UsageRecord } from "./usage/schema.ts";
import type { Deletion, Hold, HoldKind, Holds, StoredLimits } from "./users/schema.ts";
import type { WebhookEvent, WebhookSecretState } from "./webhook/schema.ts";

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

/**
 * A conditional write either wins and returns the new item, or loses and returns the current one. Losing is not an
 * error.
 */
export type Outcome<T> = { won: true; item: T } | { won: false; item: T | undefined };

/** Conditions for changing a task: always its turn, usually its status. */
export interface TaskGuard {
  turn: number;
  status: readonly Status[];
  /** The claim expired before this time. */
  claimUntilBefore?: number;
  claimId?: string;
  outputSeq?: number;
  /** The deadline is after this time. */
  deadlineAfter?: number;
  /** The clone credential was given to nobody, or to this nonce. */
  cloneNonce?: string;
  /** This turn's follow-up is not done. */
  uncounted?: number;
  /** Exactly this many attempts to end it are recorded. */
  attempts?: number;
  /** Exactly this due time. */
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
    | "networkOpen"
    | "reaped"
    | "maybeLaunched"
  )[];
  phase?: Phase;
  notice?: Notice;
}

/** Conditions for changing a session. `lease: null`: it never had one. */
export interface SessionGuard {
  lease?: Lease | null;
  /** This turn holds the lease, however often it was renewed. */
  holder?: { taskId: string; turn: number };
  epoch?: number;
  /** Nobody extends or moves the sandbox at this time. */
  notBusyAt?: number;
  /** The sandbox is still being created by this process; nobody has adopted it. */
  maker?: string;
  /** The session exists and is not deleted. */
  isOpen?: true;
  /** Not used since. */
  lastUsedAt?: number;
  /** No later mark of a running command. */
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
  /** The id after which the next page starts; undefined on the last page. */
  next: string | undefined;
}

/** Where a prompt is stored: the turn, and the key of the request that made it. */
export interface PromptPosition {
  turn: number;
  /** Undefined if it was written before requests had keys. */
  key: string | undefined;
}

/** A reader's position in a task's records. */
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
   * A page of a user's tasks, newest first, in a bounded number of requests. If few tasks pass the filter, a page may
   * be short or empty and still have a next one.
   */
  listTasks(
    userId: string,
    options: { limit: number; after?: string; status?: Status; sessionKey?: string },
  ): Promise<Page<Task>>;
  /**
   * Due tasks, longest due first, in a bounded number of requests. They come from an eventually consistent index: read
   * each again before acting on it.
   */
  listDueTasks(now: number, limit: number): Promise<{ id: string; userId: string }[]>;
  /** The same for sessions. */
  listDueSessions(now: number, limit: number): Promise<{ userId: string; key: string }[]>;
  /** Sessions without a turn, least recently used first, of one user or of all. From an index, as above. */
  listIdleSessions(limit: number, userId?: string): Promise<{ userId: string; key: string }[]>;

  /** Records are written before the write that commits them (`outputSeq`). Writing one again changes nothing. */
  putRecord(taskId: string, record: EventRecord, expiresAt: number): Promise<void>;
  /** Stores a request's prompt for as long as the task is kept. Requests that race for a turn each have their own. */
  putPrompt(taskId: string, position: PromptPosition, prompt: string, expiresAt: number): Promise<void>;
  getPrompt(taskId: string, position: PromptPosition): Promise<string | undefined>;
  /** The prompts before a turn, in order, including those of requests that lost the race for a turn. */
  readPrompts(taskId: string, beforeTurn: number): Promise<(PromptPosition & { prompt: string })[]>;
  /** A page of records in order, starting with `from` itself. */
  readRecords(
    taskId: string,
    from: RecordPosition,
    toTurn: number,
  ): Promise<{ records: EventRecord[]; more: boolean }>;

  getSession(userId: string, key: string): Promise<Session | undefined>;
  /** A user's sessions, newest first, without deleted ones. */
  listSessions(userId: string, options: { limit: number; after?: string }): Promise<Page<Session>>;
  /** Creates the session if it does not exist and the guard requires no lease. */
  changeSession(
    userId: string,
    key: string,
    guard: SessionGuard,
    change: SessionChange,
  ): Promise<Outcome<Session>>;

  /** Warm sandboxes that are not claimed. */
  listWarm(): Promise<UnclaimedWarmSandbox[]>;
  /** False if one of that name exists. */
  createWarm(sandbox: WarmSandbox): Promise<boolean>;
  /** False if it is no longer in state `from`. */
  changeWarm(name: string, from: WarmSandbox["state"], sandbox: WarmSandbox): Promise<boolean>;
  deleteWarm(name: string, from: WarmSandbox["state"]): Promise<boolean>;
  getWarm(name: string): Promise<WarmSandbox | undefined>;
  /** All slots, read consistently. */
  listSlots(): Promise<Slot[]>;
  /** One slot per sandbox. Putting it again changes its owner. */
  putSlot(slot: Slot): Promise<void>;
  deleteSlot(name: string): Promise<void>;
  /** Where the reaper's last pass stopped in the provider's list; undefined if it reached the end. */
  getReapCursor(): Promise<string | undefined>;
  putReapCursor(cursor: string | undefined): Promise<void>;
  getBaseSnapshot(): Promise<BaseSnapshot | undefined>;
  /** False if the stored version is not `seen`; 0 means none is stored. */
  putBaseSnapshot(base: BaseSnapshot, seen: number): Promise<boolean>;
  /** Adds to a user's counters of a day and returns the sums. */
  addUsage(
    day: string,
    userId: string,
    counters: Counters,
    expiresAt: number,
    /** Added by the same write: the user's success metrics of this hour. */
    measures?: HourCounters,
  ): Promise<UsageRecord>;
  getUsage(day: string, userId: string): Promise<UsageRecord | undefined>;
  listUsage(day: string): Promise<UsageRecord[]>;
  /** Adds to the success metrics of an hour over all users. `spread` picks the shard. */
  addMeasures(day: string, measures: HourCounters, spread: string, expiresAt: number): Promise<void>;
  /** The success metrics of a day by hour: of a user, and of all. An hour may be listed more than once. */
  getMeasures(day: string, userId: string): Promise<HourCounters[]>;
  listMeasures(day: string): Promise<HourCounters[]>;

  getFlags(): Promise<Flags>;
  putFlags(flags: Flags): Promise<void>;

  getKey(id: string): Promise<Key | undefined>;
  createKey(key: Key): Promise<Outcome<Key>>;
  /** Newest first, of one user or of all. A filtered page may be short and still have a next one. */
  listKeys(options: { limit: number; after?: string; userId?: string }): Promise<Page<Key>>;
  /** False if the key does not exist. */
  changeKey(id: string, set: Pick<Partial<Key>, "expiresAt" | "lastUsedAt">): Promise<boolean>;
  deleteKey(id: string): Promise<boolean>;

  /** A user's own limits; undefined if the defaults apply. */
  getUserLimits(userId: string): Promise<StoredLimits | undefined>;
  putUserLimits(userId: string, limits: StoredLimits): Promise<void>;
  getHolds(userId: string, kind: HoldKind): Promise<Holds>;
  /**
   * Takes a hold (`from` undefined), changes it, or drops it (`to` undefined). One write on one item: it wins only if the
   * hold is still `from` and every group that it joins is below its `max`.
   */
  changeHold(
    userId: string,
    kind: HoldKind,
    id: string,
    from: Hold | undefined,
    to: Hold | undefined,
    max: Readonly<Record<string, number>>,
  ): Promise<Outcome<Holds>>;
  /** Adds to the requests of a user's minute, and returns the sums. */
  countRequests(
    userId: string,
    minute: number,
    keyId: string,
    by: { user: number; key: number },
    expiresAt: number,
  ): Promise<{ user: number; key: number }>;
  getWebhookSecret(userId: string): Promise<WebhookSecretState | undefined>;
  /** False if the stored version is not the one before. */
  putWebhookSecret(userId: string, state: WebhookSecretState): Promise<boolean>;

  /** Adds an entry. Never overwrites one. */
  addAudit(entry: AuditEntry, expiresAt: number): Promise<void>;
  /**
   * Entries older than `after`, newest first, in a bounded number of requests. If few entries pass the filter, a page may
   * be short or empty and still have a next one.
   */
  listAudit(options: {
    limit: number;
    after?: string;
    userId?: string;
    action?: string;
    /** No entry is older than this. */
    since: number;
  }): Promise<Page<AuditEntry>>;

  /** Deletes everything of a task that is expired or deleted, the task itself last. Safe to repeat. */
  purgeTask(id: string): Promise<void>;
  /** Deletes the record of a session that has no sandbox. False if it has one. */
  purgeSession(userId: string, key: string): Promise<boolean>;
  /** The keys of a user's sessions, including deleted ones, a bounded number at a time. */
  listSessionKeys(userId: string): Promise<string[]>;
  /** Deletes a user's usage of these days. */
  purgeUsage(userId: string, days: readonly string[]): Promise<void>;
  /** Deletes a user's limits, holds, counts and webhook secret. */
  purgeUser(userId: string): Promise<void>;
  /** Marks a user for deletion. The first mark stays. */
  putDeletion(deletion: Deletion): Promise<void>;
  getDeletion(userId: string): Promise<Deletion | undefined>;
  listDeletions(): Promise<Deletion[]>;
  deleteDeletion(userId: string): Promise<void>;

  /** The first caller wins the key. An expired record counts as none. */
  claimIdempotencyKey(scope: string, record: IdempotencyRecord): Promise<Outcome<IdempotencyRecord>>;
}

export type WorkMessage =
  /** `attempt` only determines the pause after the next failure. */
  | { kind: "provision"; taskId: string; turn: number; attempt?: number }
  | { kind: "prepare"; userId: string; sessionKey: string; attempt?: number }
  | { kind: "environment"; userId: string; sessionKey: string; epoch: number }
  | { kind: "ended"; taskId: string; turn: number }
  | { kind: "base"; asked?: boolean }
  | { kind: "warm" }
  | { kind: "webhook"; taskId: string; turn: number; event: WebhookEvent; attempt?: number }
  | { kind: "release"; userId: string; sessionKey: string; epoch: number }
  | { kind: "forget"; userId: string };

export interface WorkQueue {
  /** With `userId`, the queue takes turns between users when there is more than the workers can take. */
  send(message: WorkMessage, delayMs?: number, userId?: string): Promise<void>;
}

export const timerKinds = ["deadline", "inactivity", "terminate", "finalize"] as const;

/** A timer only wakes: what to do is decided from the task when it fires. */
export interface Timer {
  kind: (typeof timerKinds)[number];
  taskId: string;
  turn: number;
}

export interface Timers {
  /** May fire earlier if the queue cannot wait that long, and more than once. The receiver arms it again then. */
  arm(timer: Timer, delayMs: number): Promise<void>;
}

export type WebhookOutcome = { kind: "delivered" } | { kind: "failed" | "refused"; detail: string };

/** Delivers to a user's address. */
export interface Webhooks {
  send(message: {
    url: string;
    id: string;
    at: number;
    secret: string;
    /** Secrets that were replaced and are still accepted: the message is signed with each. */
    otherSecrets?: readonly string[];
    body: string;
  }): Promise<WebhookOutcome>;
}

export interface GitCredential {
  username: string;
  token: string;
}

/** Asks a git remote without cloning. */
export interface GitRemote {
  /** The commit of a branch; undefined if the branch does not exist. Throws if the remote does not answer. */
  readBranch(url: string, branch: string, credential: GitCredential | undefined): Promise<string | undefined>;
}

export interface SessionName {
  userId: string;
  sessionKey: string;
}

/** The health of a session's sandbox. `unknown`: the provider did not answer; nothing may be concluded. */
export type Health = "healthy" | "resumable" | "gone" | "unknown";
