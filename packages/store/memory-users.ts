import type {
  AuditEntry,
  Clock,
  Deletion,
  Hold,
  Holds,
  IdempotencyRecord,
  Page,
  Session,
  Store,
  StoredLimits,
  Task,
  UsageRecord,
  WebhookSecretState,
} from "@concierge/core";

/** The maps of the memory store that deletion reaches into. */
export interface Shared {
  tasks: Map<string, Task>;
  sessions: Map<string, Session>;
  records: Map<string, unknown>;
  prompts: Map<string, unknown>;
  idempotency: Map<string, IdempotencyRecord>;
  usage: Map<string, UsageRecord>;
  clock: Clock;
  copy<T>(value: T): T;
  pageOf<T extends { id: string }>(all: T[], limit: number, after: string | undefined): Page<T>;
}

const separator = " ";

/** The part of the memory store that `dynamo-users.ts` has on the table. */
export function createMemoryUsers({ clock, copy, pageOf, ...shared }: Shared) {
  const { tasks, sessions, records, prompts, idempotency, usage } = shared;
  const limits = new Map<string, StoredLimits>();
  const holds = new Map<string, Holds>();
  const requests = new Map<string, Record<string, number>>();
  const secrets = new Map<string, WebhookSecretState>();
  const audit = new Map<string, AuditEntry & { expiresAt: number }>();
  const deletions = new Map<string, Deletion>();
  const empty: Holds = { entries: {}, counts: {} };

  return {
    async getUserLimits(userId) {
      return copy(limits.get(userId));
    },

    async putUserLimits(userId, changed) {
      limits.set(userId, copy(changed));
    },

    async getHolds(userId, kind) {
      return copy(holds.get(`${userId}${separator}${kind}`) ?? empty);
    },

    async changeHold(userId, kind, id, from, to, max) {
      const at = `${userId}${separator}${kind}`;
      const { entries, counts } = holds.get(at) ?? empty;
      const joined = (to?.groups ?? []).filter((group) => !from?.groups.includes(group));
      const left = (from?.groups ?? []).filter((group) => !to?.groups.includes(group));
      const isSame = textOf(entries[id]) === textOf(from);
      if (!isSame || joined.some((group) => (counts[group] ?? 0) >= (max[group] ?? 0)))
        return { won: false, item: copy({ entries, counts }) };
      const others = Object.entries(entries).filter(([other]) => other !== id);
      const moved = { ...counts };
      for (const group of joined) moved[group] = (moved[group] ?? 0) + 1;
      for (const group of left) moved[group] = (moved[group] ?? 0) - 1;
      const changed = { entries: Object.fromEntries([...others, ...(to ? [[id, to]] : [])]), counts: moved };
      holds.set(at, copy(changed));
      return { won: true, item: copy(changed) };
    },

    async countRequests(userId, minute, keyId, by) {
      const at = `${userId}${separator}${minute}`;
      const before = requests.get(at) ?? {};
      const user = (before[""] ?? 0) + by.user;
      const key = (before[keyId] ?? 0) + by.key;
      requests.set(at, { ...before, "": user, [keyId]: key });
      return { user, key };
    },

    async getWebhookSecret(userId) {
      return copy(secrets.get(userId));
    },

    async putWebhookSecret(userId, state) {
      if ((secrets.get(userId)?.version ?? 0) !== state.version - 1) return false;
      secrets.set(userId, copy(state));
      return true;
    },

    async addAudit(entry, expiresAt) {
      if (audit.has(entry.id)) throw new Error(`${entry.id} is already in the audit log`);
      audit.set(entry.id, copy({ ...entry, expiresAt }));
    },

    async listAudit({ limit, after, userId, action, since }) {
      const listed = [...audit.values()].filter(
        (entry) =>
          entry.expiresAt > clock.now() &&
          Date.parse(entry.at) >= since &&
          (userId ?? entry.userId) === entry.userId &&
          (action ?? entry.action) === entry.action,
      );
      const { items, next } = pageOf(listed, limit, after);
      return { items: items.map(({ expiresAt: _, ...entry }) => entry), next };
    },

    async purgeTask(id) {
      const task = tasks.get(id);
      if (task && task.expiresAt > clock.now()) return;
      if (task?.startKey !== undefined) idempotency.delete(`${task.userId}#start#${task.startKey}`);
      for (const at of [...records.keys()]) if (at.startsWith(`${id} `)) records.delete(at);
      prompts.delete(id);
      tasks.delete(id);
    },

    async purgeSession(userId, key) {
      const at = `${userId}#${key}`;
      if (sessions.get(at)?.sandbox) return false;
      sessions.delete(at);
      return true;
    },

    async listSessionKeys(userId) {
      return [...sessions.values()].filter((session) => session.userId === userId).map(({ key }) => key);
    },

    async purgeUsage(userId, days) {
      for (const day of days) usage.delete(`${day} ${userId}`);
    },

    async purgeUser(userId) {
      limits.delete(userId);
      secrets.delete(userId);
      for (const map of [holds, requests])
        for (const at of [...map.keys()]) if (at.startsWith(`${userId}${separator}`)) map.delete(at);
    },

    async putDeletion(deletion) {
      if (!deletions.has(deletion.userId)) deletions.set(deletion.userId, copy(deletion));
    },

    async getDeletion(userId) {
      return copy(deletions.get(userId));
    },

    async listDeletions() {
      return copy([...deletions.values()]);
    },

    async deleteDeletion(userId) {
      deletions.delete(userId);
    },
  } satisfies Partial<Store>;
}

function textOf(hold: Hold | undefined): string | undefined {
  return hold && `${hold.value}|${hold.groups.join(",")}`;
}
