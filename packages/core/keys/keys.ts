import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { keysPerUserMax, keyUseEveryMs } from "../limits.ts";
import { refuseDeleting } from "../users/deleting.ts";
import { type Key, type Scope, scopes } from "./schema.ts";

export interface Caller {
  userId: string;
  admin: boolean;
  keyId: string;
  scopes: readonly Scope[];
}

/** The id of the key that the stack was deployed with. It has no record, so it cannot be revoked or rotated here. */
export const bootstrapKeyId = "bootstrap";

/** `ck_<id>_<secret>`: the id finds the record, the secret's hash is compared in constant time. */
const pattern = /^ck_(key_[0-9a-z]{26})_([A-Za-z0-9_-]{43})$/;

export interface KeyRequest {
  userId?: string | undefined;
  admin?: boolean | undefined;
  name?: string | undefined;
  scopes?: readonly Scope[] | undefined;
  expiresAt?: number | undefined;
}

export interface NewKey {
  id: string;
  key: string;
  scopes: readonly Scope[];
  expiresAt: number | undefined;
}

/** Creates a key for the caller, or for any user if the caller is an admin. It never has more scopes than the caller. */
export async function createKey(deps: Deps, caller: Caller, request: KeyRequest): Promise<NewKey> {
  const { userId = caller.userId, admin = false, name, expiresAt } = request;
  if (!caller.admin && (userId !== caller.userId || admin))
    throw new AppError("forbidden", "Only admins can create keys for other users, or admin keys.");
  if (deps.config.isSingleUser && userId !== deps.config.adminUserId)
    throw new AppError(
      "forbidden",
      "Sandboxes are NOT ISOLATED here, so only one user may have keys. Isolate them, or start with --allow-unisolated.",
    );
  const wanted = request.scopes ?? defaultScopes(caller, admin);
  const missing = wanted.find((scope) => !hasScope(caller, scope));
  if (missing) throw missingScope(missing);
  if (expiresAt !== undefined && expiresAt <= deps.clock.now())
    throw new AppError("invalid_request", "`expiresAt` must be in the future.");
  await refuseDeleting(deps, userId);
  await refuseTooMany(deps, userId);
  const granted = { admin: admin || wanted.includes("admin"), scopes: [...new Set(wanted)] };
  return await issue(deps, {
    userId,
    ...granted,
    ...(name !== undefined && { name }),
    ...(expiresAt !== undefined && { expiresAt }),
  });
}

/** Replaces a key by a new one with the same rights. The old one is accepted for `overlapMs` more. */
export async function rotateKey(deps: Deps, caller: Caller, id: string, overlapMs: number): Promise<NewKey> {
  const {
    createdAt: _,
    id: old,
    hash: _hash,
    lastUsedAt: _used,
    ...rights
  } = await findKey(deps, caller, id);
  const lacking = rights.scopes?.find((scope) => !hasScope(caller, scope));
  if (lacking) throw missingScope(lacking);
  const issued = await issue(deps, { ...rights, scopes: rights.scopes ?? scopesOf(rights) });
  const endsAt = deps.clock.now() + overlapMs;
  await deps.store.changeKey(old, { expiresAt: Math.min(endsAt, rights.expiresAt ?? endsAt) });
  return issued;
}

/** Revokes a key at once. */
export async function revokeKey(deps: Deps, caller: Caller, id: string): Promise<void> {
  await findKey(deps, caller, id);
  await deps.store.deleteKey(id);
}

/** A key of the caller, or any key for an admin. Another user's key is not found. */
export async function findKey({ store }: Deps, caller: Caller, id: string): Promise<Key> {
  const key = await store.getKey(id);
  if (!key || (key.userId !== caller.userId && !caller.admin))
    throw new AppError("not_found", "The key does not exist.");
  return key;
}

async function issue(
  { store, ids, clock }: Deps,
  key: Omit<Key, "id" | "hash" | "createdAt"> & { scopes: Scope[] },
): Promise<NewKey> {
  const id = ids.key();
  const secret = randomBytes(32).toString("base64url");
  const hash = digest(secret).toString("base64");
  const outcome = await store.createKey({ ...key, id, hash, createdAt: clock.now() });
  if (!outcome.won) throw new AppError("internal", "The key could not be stored.");
  return { id, key: `ck_${id}_${secret}`, scopes: key.scopes, expiresAt: key.expiresAt };
}

async function refuseTooMany({ store }: Deps, userId: string): Promise<void> {
  const { items } = await store.listKeys({ limit: keysPerUserMax, userId });
  if (items.length >= keysPerUserMax)
    throw new AppError("key_limit", `A user has at most ${keysPerUserMax} keys. Revoke one first.`);
}

export async function authenticate(
  { store, config, clock }: Deps,
  adminKey: string,
  presented: string,
): Promise<Caller | undefined> {
  if (timingSafeEqual(digest(presented), digest(adminKey)))
    return { userId: config.adminUserId, admin: true, keyId: bootstrapKeyId, scopes };

  const [, id, secret] = pattern.exec(presented) ?? [];
  const key = id ? await store.getKey(id) : undefined;
  if (!key || !secret || !matches(key, secret)) return undefined;
  const now = clock.now();
  if (key.expiresAt !== undefined && key.expiresAt <= now) return undefined;
  // Best effort: a failed mark must not fail the request.
  if (now - (key.lastUsedAt ?? 0) >= keyUseEveryMs)
    await store.changeKey(key.id, { lastUsedAt: now }).catch(() => {});
  return { userId: key.userId, admin: key.admin, keyId: key.id, scopes: scopesOf(key) };
}

/** Whether the caller's key is still accepted, for streams that outlive a revocation. */
export async function isStillValid({ store, clock }: Deps, { keyId }: Caller): Promise<boolean> {
  if (keyId === bootstrapKeyId) return true;
  const key = await store.getKey(keyId);
  return key !== undefined && (key.expiresAt === undefined || key.expiresAt > clock.now());
}

export function hasScope({ admin, scopes: own }: Pick<Caller, "admin" | "scopes">, scope: Scope): boolean {
  return own.includes(scope) || (admin && own.includes("admin"));
}

export function missingScope(scope: Scope): AppError {
  return new AppError("missing_scope", `The key lacks the scope ${scope}.`, { scope });
}

export function scopesOf({ admin, scopes: own }: Pick<Key, "admin" | "scopes">): Scope[] {
  return own ?? scopes.filter((scope) => admin || scope !== "admin");
}

function defaultScopes(caller: Caller, admin: boolean): readonly Scope[] {
  if (admin) return scopes;
  return scopes.filter((scope) => scope !== "admin" && hasScope(caller, scope));
}

function matches(key: Key, secret: string): boolean {
  return timingSafeEqual(digest(secret), Buffer.from(key.hash, "base64"));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
