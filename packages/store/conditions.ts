import type { SessionGuard, Status, TaskGuard, WarmSandbox } from "@concierge/core";

/** An expression with its names and values. */
export interface Condition {
  expression: string;
  names: Record<string, string>;
  values: Record<string, unknown>;
}

export const isThere: Condition = { expression: "attribute_exists(pk)", names: {}, values: {} };

/** For a put that must not overwrite. */
export const isAbsent: Condition = { expression: "attribute_not_exists(pk)", names: {}, values: {} };

/**
 * DynamoDB deletes expired items days later, so every condition compares `expiresAt` itself:
 *
 *   written          expiresAt            deleted by DynamoDB
 *   ───┬────────────────┬──────────────────────┬───────►
 *      │ exists         │ treated as missing   │ missing
 */
export const isAbsentOrExpired = (now: number): Condition => ({
  expression: "attribute_not_exists(pk) OR expiresAt <= :now",
  names: {},
  values: { ":now": now },
});

const notExpired = (now: number): Condition => ({
  expression: "expiresAt > :now",
  names: {},
  values: { ":now": now },
});

/** The warm sandbox is still in the state that was read. Of concurrent writers one wins. */
export const isWarm = (state: WarmSandbox["state"]): Condition => ({
  expression: "#state = :state",
  names: { "#state": "state" },
  values: { ":state": state },
});

/** The stored version is the one that was read. 0 means that there was none. */
export const versionIs = (version: number): Condition =>
  version === 0
    ? isAbsent
    : {
        expression: "#version = :version",
        names: { "#version": "version" },
        values: { ":version": version },
      };

/** The turn and the status match, and everything else that the guard names. */
export function taskAllows(guard: TaskGuard, now: number): Condition {
  const state = { "#state": "state", "#status": "status" };
  const statuses = Object.fromEntries(guard.status.map((status, i) => [`:status${i}`, status]));
  const parts: Condition[] = [
    notExpired(now),
    { expression: "turn = :turn", names: {}, values: { ":turn": guard.turn } },
    { expression: `#state.#status IN (${Object.keys(statuses).join(", ")})`, names: state, values: statuses },
  ];
  const claim = { ...state, "#claim": "claim" };
  if (guard.claimUntilBefore !== undefined) {
    parts.push({
      expression: "#state.#claim.#until < :claimUntil",
      names: { ...claim, "#until": "until" },
      values: { ":claimUntil": guard.claimUntilBefore },
    });
  }
  if (guard.claimId !== undefined) {
    parts.push({
      expression: "#state.#claim.id = :claimId",
      names: claim,
      values: { ":claimId": guard.claimId },
    });
  }
  if (guard.outputSeq !== undefined) {
    parts.push({
      expression: "outputSeq = :outputSeq",
      names: {},
      values: { ":outputSeq": guard.outputSeq },
    });
  }
  if (guard.deadlineAfter !== undefined) {
    parts.push({
      expression: "deadlineAt > :deadlineAfter",
      names: {},
      values: { ":deadlineAfter": guard.deadlineAfter },
    });
  }
  if (guard.cloneNonce !== undefined) {
    parts.push({
      expression: "(attribute_not_exists(cloneNonce) OR cloneNonce = :cloneNonce)",
      names: {},
      values: { ":cloneNonce": guard.cloneNonce },
    });
  }
  if (guard.uncounted !== undefined) {
    parts.push({
      expression: "(attribute_not_exists(countedTurn) OR countedTurn < :uncounted)",
      names: {},
      values: { ":uncounted": guard.uncounted },
    });
  }
  if (guard.attempts !== undefined) {
    parts.push({
      expression: `(${guard.attempts === 0 ? "attribute_not_exists(#state.attempts) OR " : ""}#state.attempts = :attempts)`,
      names: state,
      values: { ":attempts": guard.attempts },
    });
  }
  if (guard.dueAt !== undefined) {
    parts.push({ expression: "dueAt = :dueAtRead", names: {}, values: { ":dueAtRead": guard.dueAt } });
  }
  return all(parts);
}

/**
 * The lease is exactly the one that was read, including its `at`, and so is the epoch. The write loses if another process
 * renewed, took or released the lease in between. A guard for no lease also holds if the session is missing or expired.
 */
export function sessionAllows(guard: SessionGuard, now: number): Condition {
  const parts: Condition[] = [];
  if (guard.lease === null) {
    parts.push({
      expression: "(attribute_not_exists(lease) OR expiresAt <= :now)",
      names: {},
      values: { ":now": now },
    });
  }
  if (guard.lease) {
    // Field by field, because not every engine compares maps.
    parts.push({
      expression: "lease.taskId = :leaseTask AND lease.turn = :leaseTurn AND lease.#at = :leaseAt",
      names: { "#at": "at" },
      values: {
        ":leaseTask": guard.lease.taskId,
        ":leaseTurn": guard.lease.turn,
        ":leaseAt": guard.lease.at,
      },
    });
  }
  if (guard.holder) {
    parts.push({
      expression: "lease.taskId = :holderTask AND lease.turn = :holderTurn",
      names: {},
      values: { ":holderTask": guard.holder.taskId, ":holderTurn": guard.holder.turn },
    });
  }
  if (guard.epoch !== undefined) {
    parts.push({ expression: "epoch = :epochSeen", names: {}, values: { ":epochSeen": guard.epoch } });
  }
  if (guard.notBusyAt !== undefined) {
    parts.push({
      expression: "(attribute_not_exists(sandbox.busy) OR sandbox.busy.#busyUntil <= :notBusyAt)",
      names: { "#busyUntil": "until" },
      values: { ":notBusyAt": guard.notBusyAt },
    });
  }
  if (guard.maker !== undefined) {
    parts.push({
      expression: "sandbox.#state = :creating AND sandbox.#by = :maker",
      names: { "#state": "state", "#by": "by" },
      values: { ":creating": "creating", ":maker": guard.maker },
    });
  }
  if (guard.lastUsedAt !== undefined) {
    parts.push({ expression: "lastUsedAt = :usedAt", names: {}, values: { ":usedAt": guard.lastUsedAt } });
  }
  if (guard.usedUntil !== undefined) {
    parts.push({ expression: "usedUntil = :until", names: {}, values: { ":until": guard.usedUntil } });
  }
  if (guard.isOpen) {
    parts.push(notExpired(now), { expression: "attribute_not_exists(deletedAt)", names: {}, values: {} });
  }
  return parts.length > 0 ? all(parts) : isThere;
}

/** For deleting the remains of a task: it is expired, or only its other items were left. */
export const isOldOrGone = (now: number): Condition => ({
  expression: "attribute_not_exists(pk) OR expiresAt <= :now",
  names: {},
  values: { ":now": now },
});

export const withoutSandbox: Condition = {
  expression: "attribute_exists(pk) AND attribute_not_exists(sandbox)",
  names: {},
  values: {},
};

/** The hold is as it was read, and each count that grows is below its limit. */
export function mayChangeHold(
  hold: { name: string; value: string | undefined },
  counts: readonly { name: string; max: number }[],
): Condition {
  const names = { "#hold": hold.name };
  const same: Condition =
    hold.value === undefined
      ? { expression: "attribute_not_exists(#hold)", names, values: {} }
      : { expression: "#hold = :holdWas", names, values: { ":holdWas": hold.value } };
  const below = counts.map(
    ({ name, max }, at): Condition => ({
      // The first hold of a user finds no count. A limit of 0 admits none.
      expression:
        max > 0
          ? `(attribute_not_exists(#count${at}) OR #count${at} < :max${at})`
          : `#count${at} < :max${at}`,
      names: { [`#count${at}`]: name },
      values: { [`:max${at}`]: max },
    }),
  );
  return all([same, ...below]);
}

/** Items before a sort key. */
export const isBefore = (pk: string, before: string): Condition => ({
  expression: "pk = :pk AND sk < :before",
  names: {},
  values: { ":pk": pk, ":before": before },
});

export const isInPartition = (pk: string): Condition => ({
  expression: "pk = :pk",
  names: {},
  values: { ":pk": pk },
});

export const isIn = (pk: string, prefix: string): Condition => ({
  expression: "pk = :pk AND begins_with(sk, :prefix)",
  names: {},
  values: { ":pk": pk, ":prefix": prefix },
});

export const isBetween = (pk: string, from: string, to: string): Condition => ({
  expression: "pk = :pk AND sk BETWEEN :from AND :to",
  names: {},
  values: { ":pk": pk, ":from": from, ":to": to },
});

export const isOwnedBy = (owner: string): Condition => ({
  expression: "#owner = :owner",
  names: { "#owner": "owner" },
  values: { ":owner": owner },
});

export const isDue = (shard: string, now: number): Condition => ({
  expression: "dueShard = :shard AND dueAt <= :now",
  names: {},
  values: { ":shard": shard, ":now": now },
});

/** Filters sessions by user, with the table's key. */
export const isSessionOf = (userId: string): Condition => ({
  expression: "begins_with(pk, :sessions)",
  names: {},
  values: { ":sessions": `SESSION#${userId}#` },
});

export const isNotDeleted: Condition = {
  expression: "attribute_not_exists(deletedAt)",
  names: {},
  values: {},
};

/** Filters by the index's copy of the status. Items before version 3 have none; the caller checks those. */
export const mayHaveStatus = (status: Status): Condition => ({
  expression: "(#status = :status OR attribute_not_exists(#status))",
  names: { "#status": "status" },
  values: { ":status": status },
});

export const isOfSession = (sessionKey: string): Condition => ({
  expression: "sessionKey = :sessionKey",
  names: {},
  values: { ":sessionKey": sessionKey },
});

export function all(parts: readonly Condition[]): Condition {
  return {
    expression: parts.map((part) => part.expression).join(" AND "),
    names: Object.assign({}, ...parts.map((part) => part.names)),
    values: Object.assign({}, ...parts.map((part) => part.values)),
  };
}
