import {
  type AuditEntry,
  type Clock,
  type Deletion,
  firstIdAt,
  type Hold,
  type Holds,
  idTime,
  type Store,
} from "@concierge/core";
import { isAbsent, isOldOrGone, isThere, mayChangeHold, versionIs, withoutSandbox } from "./conditions.ts";
import {
  auditPartition,
  deletionsPartition,
  type Item,
  keyOf,
  ownerOf,
  ttlOf,
  userPartition,
} from "./items.ts";
import type { Key, Table } from "./table.ts";

type UserStore = Pick<
  Store,
  | "getUserLimits"
  | "putUserLimits"
  | "getHolds"
  | "changeHold"
  | "countRequests"
  | "getWebhookSecret"
  | "putWebhookSecret"
  | "addAudit"
  | "listAudit"
  | "purgeTask"
  | "purgeSession"
  | "listSessionKeys"
  | "purgeUsage"
  | "purgeUser"
  | "putDeletion"
  | "getDeletion"
  | "listDeletions"
  | "deleteDeletion"
>;

const dayMs = 24 * 60 * 60_000;
/** Longer than anything is held. The list is deleted when nothing was taken or dropped for this long. */
const holdsKeptMs = 3 * dayMs;
/** Deletes in flight at once. */
const deletesAtOnce = 10;
/** How many days one page of the audit log looks at. */
const auditDaysPerPage = 40;
const sessionsPerPage = 100;

/** Everything that belongs to a user as such: limits, counts, secrets; the audit log; deletion. */
export function createUserStore({ table, clock }: { table: Table; clock: Clock }): UserStore {
  const removeAll = async (keys: readonly Key[]): Promise<void> => {
    for (let at = 0; at < keys.length; at += deletesAtOnce)
      await Promise.all(keys.slice(at, at + deletesAtOnce).map((key) => table.remove(key, isThere)));
  };

  return {
    async getUserLimits(userId) {
      return (await table.get(keyOf.userLimits(userId)))?.limits as ReturnType<Store["getUserLimits"]>;
    },

    async putUserLimits(userId, limits) {
      await table.putUnconditionally({ ...keyOf.userLimits(userId), limits });
    },

    async getHolds(userId, kind) {
      return readHolds((await table.get(keyOf.holds(userId, kind))) ?? {});
    },

    async changeHold(userId, kind, id, from, to, max) {
      const joined = (to?.groups ?? []).filter((group) => !from?.groups.includes(group));
      const left = (from?.groups ?? []).filter((group) => !to?.groups.includes(group));
      const name = holdPrefix + id;
      const outcome = await table.update(
        keyOf.holds(userId, kind),
        {
          set: { ttl: ttlOf(clock.now() + holdsKeptMs), ...(to && { [name]: formatHold(to) }) },
          add: Object.fromEntries([
            ...joined.map((group) => [countPrefix + group, 1]),
            ...left.map((group) => [countPrefix + group, -1]),
          ]),
          remove: to ? [] : [name],
        },
        mayChangeHold(
          { name, value: from && formatHold(from) },
          joined.map((group) => ({ name: countPrefix + group, max: max[group] ?? 0 })),
        ),
      );
      if (outcome.won) return { won: true, item: readHolds(outcome.item) };
      return { won: false, item: readHolds(outcome.item ?? {}) };
    },

    async countRequests(userId, minute, keyId, by, expiresAt) {
      const item = await table.addUp(keyOf.requests(userId, minute), {
        set: { ttl: ttlOf(expiresAt) },
        add: { total: by.user, [`k_${keyId}`]: by.key },
      });
      return { user: Number(item.total), key: Number(item[`k_${keyId}`]) };
    },

    async getWebhookSecret(userId) {
      const item = await table.get(keyOf.webhookSecret(userId));
      return item && { version: Number(item.version), previousUntil: Number(item.previousUntil) };
    },

    async putWebhookSecret(userId, state) {
      const item = { ...state, ...keyOf.webhookSecret(userId) };
      return (await table.put(item, versionIs(state.version - 1))).won;
    },

    async addAudit(entry, expiresAt) {
      const item = { ...entry, expiresAt, ttl: ttlOf(expiresAt), ...keyOf.audit(entry.id) };
      const outcome = await table.put(item, isAbsent);
      if (!outcome.won) throw new Error(`${entry.id} is already in the audit log`);
    },

    async listAudit({ limit, after, userId, action, since }) {
      const items: AuditEntry[] = [];
      let before = after ?? `audit_${"z".repeat(26)}`;
      let day = after === undefined ? clock.now() : idTime(after);
      for (let days = 0; days < auditDaysPerPage; days++, day -= dayMs) {
        if (day < since - dayMs) return { items, next: undefined };
        for (;;) {
          const page = await table.readBefore(auditPartition(day), before, 100);
          for (const item of page.items) {
            before = String(item.sk);
            const entry = readAudit(item);
            if ((userId ?? entry.userId) !== entry.userId || (action ?? entry.action) !== entry.action)
              continue;
            if (Date.parse(entry.at) >= since) items.push(entry);
            if (items.length === limit) return { items, next: entry.id };
          }
          if (!page.more) break;
        }
      }
      return { items, next: endOfDay(day) };
    },

    async purgeTask(id) {
      const head = await table.getRaw(keyOf.task(id));
      const now = clock.now();
      if (head && typeof head.expiresAt === "number" && head.expiresAt > now) return;
      const { pk, sk } = keyOf.task(id);
      const all = await table.readKeys(pk);
      const { startKey, userId } = head ?? {};
      if (startKey !== undefined)
        await table.remove(keyOf.idempotency(`${String(userId)}#start#${String(startKey)}`), isThere);
      await removeAll(all.filter((key) => key.sk !== sk));
      await table.remove({ pk, sk }, isOldOrGone(now));
    },

    async purgeSession(userId, key) {
      const at = keyOf.session(userId, key);
      return (await table.remove(at, withoutSandbox)) || (await table.getRaw(at)) === undefined;
    },

    async listSessionKeys(userId) {
      const page = await table.listOwnedKeys(ownerOf.sessions(userId), sessionsPerPage);
      return page.map(({ pk }) => pk.slice(`SESSION#${userId}#`.length));
    },

    async purgeUsage(userId, days) {
      await removeAll(days.map((day) => keyOf.usage(day, userId)));
    },

    async purgeUser(userId) {
      await removeAll(await table.readKeys(userPartition(userId)));
    },

    async putDeletion({ userId, at }) {
      await table.put({ ...keyOf.deletion(userId), userId, at }, isAbsent);
    },

    async getDeletion(userId) {
      const item = await table.get(keyOf.deletion(userId));
      return item && readDeletion(item);
    },

    async listDeletions() {
      return (await table.readAll(deletionsPartition, "USER#")).map(readDeletion);
    },

    async deleteDeletion(userId) {
      await table.remove(keyOf.deletion(userId), isThere);
    },
  };
}

/** Keeps holds and counts apart from each other and from the item's own attributes. */
const holdPrefix = "h_";
const countPrefix = "c_";

function formatHold({ value, groups }: Hold): string {
  return `${value}|${groups.join(",")}`;
}

function readHolds(item: Item): Holds {
  const of = (prefix: string) =>
    Object.entries(item)
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, value]) => [name.slice(prefix.length), value] as const);
  const entries = of(holdPrefix).map(([id, text]) => {
    const [value = "", groups = ""] = String(text).split("|");
    return [id, { value, groups: groups === "" ? [] : groups.split(",") }];
  });
  return {
    entries: Object.fromEntries(entries),
    counts: Object.fromEntries(of(countPrefix).map(([group, count]) => [group, Number(count)])),
  };
}

function readAudit({ id, at, action, userId, keyId, ip, requestId, target, detail }: Item): AuditEntry {
  return {
    id,
    at,
    action,
    userId,
    keyId,
    ip: ip ?? null,
    requestId,
    target,
    detail: detail ?? {},
  } as AuditEntry;
}

function readDeletion({ userId, at }: Item): Deletion {
  return { userId: String(userId), at: Number(at) };
}

/** A cursor after which the next page starts with the day before. */
function endOfDay(day: number): string {
  return firstIdAt("audit", day - (day % dayMs) + dayMs);
}
