import {
  type BaseSnapshot,
  type Clock,
  type Counters,
  type EventRecord,
  type Flags,
  type HourCounters,
  type IdempotencyRecord,
  isUnclaimed,
  type Key,
  type Outcome,
  type Page,
  type PromptPosition,
  type RecordPosition,
  type Session,
  type SessionGuard,
  type Slot,
  type Store,
  type Task,
  type TaskGuard,
  type UsageRecord,
  type WarmSandbox,
} from "@concierge/core";
import { createMemoryUsers } from "./memory-users.ts";

/** The `Store` in memory, for unit tests and simulations. It passes the same contract suite. */
export function createMemoryStore({ clock }: { clock: Clock }): Store {
  const tasks = new Map<string, Task>();
  const sessions = new Map<string, Session>();
  const records = new Map<string, EventRecord>();
  const prompts = new Map<string, (PromptPosition & { prompt: string })[]>();
  const keys = new Map<string, Key>();
  const idempotency = new Map<string, IdempotencyRecord>();
  const warm = new Map<string, WarmSandbox>();
  const slots = new Map<string, Slot>();
  let reapCursor: string | undefined;
  const usage = new Map<string, UsageRecord>();
  const measures = new Map<string, HourCounters[]>();
  let base: BaseSnapshot | undefined;
  let flags: Flags = {};

  const live = <T extends { expiresAt: number }>(item: T | undefined): T | undefined =>
    item && item.expiresAt > clock.now() ? copy(item) : undefined;

  const shared = { tasks, sessions, records, prompts, idempotency, usage, clock, copy, pageOf };
  const addHour = (owner: string, { hour, counters }: HourCounters): void => {
    const hours = measures.get(owner) ?? [];
    const before = hours.find((one) => one.hour === hour)?.counters ?? {};
    const others = hours.filter((one) => one.hour !== hour);
    measures.set(owner, [...others, { hour, counters: added(before, counters) }]);
  };

  return {
    ...createMemoryUsers(shared),

    async getTask(id) {
      return live(tasks.get(id));
    },

    async createTask(task) {
      const existing = tasks.get(task.id);
      if (existing) return lost(live(existing));
      tasks.set(task.id, copy(task));
      return won(task);
    },

    async changeTask(id, guard, { set = {}, remove = [], phase, notice }) {
      const task = live(tasks.get(id));
      if (!task || !taskAllows(task, guard)) return lost(task);
      const changed: Task = {
        ...task,
        ...copy(set),
        ...(phase && { phases: [...task.phases, phase], phaseCount: task.phaseCount + 1 }),
        ...(notice && { notices: [...task.notices, notice] }),
      };
      for (const name of remove) delete changed[name];
      tasks.set(id, changed);
      return won(changed);
    },

    async listTasks(userId, { limit, after, status, sessionKey }) {
      const mine = [...tasks.values()].filter(
        (task) =>
          task.userId === userId &&
          task.expiresAt > clock.now() &&
          (status === undefined || task.state.status === status) &&
          (sessionKey === undefined || task.sessionKey === sessionKey),
      );
      return pageOf(mine, limit, after);
    },

    async listDueTasks(now, limit) {
      const due = [...tasks.values()].filter((task) => task.dueAt !== undefined && task.dueAt <= now);
      due.sort((a, b) => (a.dueAt ?? 0) - (b.dueAt ?? 0));
      return due.slice(0, limit).map(({ id, userId }) => ({ id, userId }));
    },

    async listDueSessions(now, limit) {
      const due = [...sessions.values()].filter(
        (session) => session.dueAt !== undefined && session.dueAt <= now,
      );
      due.sort((a, b) => (a.dueAt ?? 0) - (b.dueAt ?? 0));
      return due.slice(0, limit).map(({ userId, key }) => ({ userId, key }));
    },

    async listIdleSessions(limit, userId) {
      const idle = [...sessions.values()].filter(
        (session) =>
          session.isIdle && session.dueAt !== undefined && (userId ?? session.userId) === session.userId,
      );
      idle.sort((a, b) => (a.dueAt ?? 0) - (b.dueAt ?? 0));
      return idle.slice(0, limit).map(({ userId: of, key }) => ({ userId: of, key }));
    },

    async putRecord(taskId, record) {
      const at = `${taskId} ${recordOrder(record)}`;
      if (!records.has(at)) records.set(at, copy(record));
    },

    async putPrompt(taskId, position, prompt) {
      const others = (prompts.get(taskId) ?? []).filter(
        ({ turn, key }) => turn !== position.turn || key !== position.key,
      );
      prompts.set(taskId, [...others, { ...position, prompt }]);
    },

    async getPrompt(taskId, { turn, key }) {
      return prompts.get(taskId)?.find((one) => one.turn === turn && one.key === key)?.prompt;
    },

    async readPrompts(taskId, beforeTurn) {
      const asked = (prompts.get(taskId) ?? []).filter(({ turn }) => turn < beforeTurn);
      return copy(asked).sort((a, b) => a.turn - b.turn);
    },

    async readRecords(taskId, from, toTurn) {
      const first = `${taskId} ${recordOrder(from)}`;
      const last = `${taskId} ${recordOrder({ turn: toTurn + 1, kind: "progress", seq: 0 })}`;
      const within = [...records.keys()].filter((at) => at >= first && at < last).sort();
      return { records: within.flatMap((at) => copy(records.get(at)) ?? []), more: false };
    },

    async getSession(userId, key) {
      return live(sessions.get(`${userId}#${key}`));
    },

    async changeSession(userId, key, guard, { set = {}, remove = [] }) {
      const at = `${userId}#${key}`;
      const session = sessions.get(at);
      if (!sessionAllows(session, guard, clock.now())) return lost(live(session));
      const now = clock.now();
      const fresh: Session = { userId, key, epoch: 0, createdAt: now, lastUsedAt: now, expiresAt: now };
      const changed = { ...(session ?? fresh), ...copy(set) };
      for (const name of remove) delete changed[name];
      sessions.set(at, changed);
      return won(changed);
    },

    async listSessions(userId, { limit, after }) {
      const mine = [...sessions.values()].filter(
        (session) =>
          session.userId === userId && session.expiresAt > clock.now() && session.deletedAt === undefined,
      );
      const { items, next } = pageOf(
        mine.map((session) => ({ id: sortKeyOf(session), session })),
        limit,
        after,
      );
      return { items: items.map(({ session }) => session), next };
    },

    async listWarm() {
      return copy([...warm.values()].filter(isUnclaimed));
    },

    async getWarm(name) {
      return live(warm.get(name));
    },

    async createWarm(sandbox) {
      if (warm.has(sandbox.name)) return false;
      warm.set(sandbox.name, copy(sandbox));
      return true;
    },

    async changeWarm(name, from, sandbox) {
      if (warm.get(name)?.state !== from) return false;
      warm.set(name, copy(sandbox));
      return true;
    },

    async deleteWarm(name, from) {
      return warm.get(name)?.state === from && warm.delete(name);
    },

    async listSlots() {
      return copy([...slots.values()]).sort((a, b) => (a.name < b.name ? -1 : 1));
    },

    async putSlot(slot) {
      slots.set(slot.name, copy(slot));
    },

    async deleteSlot(name) {
      slots.delete(name);
    },

    async getReapCursor() {
      return reapCursor;
    },

    async putReapCursor(cursor) {
      reapCursor = cursor;
    },

    async getBaseSnapshot() {
      return copy(base);
    },

    async putBaseSnapshot(changed, readVersion) {
      if ((base?.version ?? 0) !== readVersion) return false;
      base = copy(changed);
      return true;
    },

    async addUsage(day, userId, counters, _expiresAt, hourly) {
      if (hourly) addHour(`${day} ${userId}`, hourly);
      const before = usage.get(`${day} ${userId}`)?.counters ?? {};
      const record = { day, userId, counters: added(before, counters) };
      usage.set(`${day} ${userId}`, record);
      return copy(record);
    },

    async getUsage(day, userId) {
      return copy(usage.get(`${day} ${userId}`));
    },

    async listUsage(day) {
      return copy([...usage.values()].filter((record) => record.day === day));
    },

    async addMeasures(day, hourly) {
      addHour(day, hourly);
    },

    async getMeasures(day, userId) {
      return copy(measures.get(`${day} ${userId}`) ?? []);
    },

    async listMeasures(day) {
      return copy(measures.get(day) ?? []);
    },

    async getFlags() {
      return { ...flags };
    },

    async putFlags(changed) {
      flags = { ...changed };
    },

    async getKey(id) {
      return copy(keys.get(id));
    },

    async createKey(key) {
      const existing = keys.get(key.id);
      if (existing) return lost(existing);
      keys.set(key.id, key);
      return won(key);
    },

    async listKeys({ limit, after, userId }) {
      const listed = [...keys.values()].filter((key) => userId === undefined || key.userId === userId);
      return pageOf(listed, limit, after);
    },

    async changeKey(id, set) {
      const key = keys.get(id);
      if (key) keys.set(id, { ...key, ...set });
      return key !== undefined;
    },

    async deleteKey(id) {
      return keys.delete(id);
    },

    async claimIdempotencyKey(scope, record) {
      const existing = live(idempotency.get(scope));
      if (existing) return lost(existing);
      idempotency.set(scope, record);
      return won(record);
    },
  };
}

function taskAllows(task: Task, guard: TaskGuard): boolean {
  const claim = task.state.status === "provisioning" ? task.state.claim : undefined;
  const attempts = "attempts" in task.state ? (task.state.attempts ?? 0) : 0;
  return (
    task.turn === guard.turn &&
    guard.status.includes(task.state.status) &&
    (guard.claimUntilBefore === undefined || (claim !== undefined && claim.until < guard.claimUntilBefore)) &&
    (guard.claimId === undefined || claim?.id === guard.claimId) &&
    (guard.outputSeq === undefined || task.outputSeq === guard.outputSeq) &&
    (guard.attempts === undefined || attempts === guard.attempts) &&
    (guard.dueAt === undefined || task.dueAt === guard.dueAt) &&
    (guard.uncounted === undefined || (task.countedTurn ?? 0) < guard.uncounted) &&
    (guard.deadlineAfter === undefined || task.deadlineAt > guard.deadlineAfter) &&
    (guard.cloneNonce === undefined || (task.cloneNonce ?? guard.cloneNonce) === guard.cloneNonce)
  );
}

function sessionAllows(
  session: Session | undefined,
  { lease, holder, epoch, notBusyAt, maker, isOpen, lastUsedAt, usedUntil }: SessionGuard,
  now: number,
): boolean {
  const busy = session?.sandbox?.state === "ready" ? session.sandbox.busy : undefined;
  if (notBusyAt !== undefined && busy && busy.until > notBusyAt) return false;
  if (epoch !== undefined && session?.epoch !== epoch) return false;
  const { taskId, turn } = session?.lease ?? {};
  if (holder && (taskId !== holder.taskId || turn !== holder.turn)) return false;
  const by = session?.sandbox?.state === "creating" ? session.sandbox.by : undefined;
  if (maker !== undefined && by !== maker) return false;
  if (lastUsedAt !== undefined && session?.lastUsedAt !== lastUsedAt) return false;
  if (usedUntil !== undefined && session?.usedUntil !== usedUntil) return false;
  if (isOpen && !(session && session.expiresAt > now && session.deletedAt === undefined)) return false;
  if (lease === undefined) return session !== undefined;
  if (lease === null) return session?.lease === undefined || session.expiresAt <= now;
  const held = session?.lease;
  return held?.taskId === lease.taskId && held.turn === lease.turn && held.at === lease.at;
}

function added(before: Counters, counters: Counters): Counters {
  const sums = Object.entries(counters).map(([name, by]) => [name, (before[name] ?? 0) + by]);
  return { ...before, ...Object.fromEntries(sums) };
}

/** A session's sort key in its user's list. */
function sortKeyOf({ createdAt, key }: Session): string {
  return `${String(createdAt).padStart(15, "0")}#${key}`;
}

function recordOrder({ turn, kind, seq }: RecordPosition): string {
  return `${String(turn).padStart(6, "0")} ${kind === "progress" ? 0 : 1} ${String(seq).padStart(15, "0")}`;
}

function pageOf<T extends { id: string }>(all: T[], limit: number, after: string | undefined): Page<T> {
  const rest = all
    .filter(({ id }) => after === undefined || id < after)
    .sort((a, b) => (a.id < b.id ? 1 : -1));
  const items = rest.slice(0, limit);
  return { items: copy(items), next: rest.length > limit ? items.at(-1)?.id : undefined };
}

/** A deep copy of plain data. Several times faster than `structuredClone`; simulations make millions of copies. */
function copy<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Uint8Array) return value.slice() as T;
  if (Array.isArray(value)) return value.map(copy) as T;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, copy(part)])) as T;
}

function won<T>(item: T): Outcome<T> {
  return { won: true, item: copy(item) };
}

function lost<T>(item: T | undefined): Outcome<T> {
  return { won: false, item: copy(item) };
}
