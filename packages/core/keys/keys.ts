import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import type { Key } from "./schema.ts";

export interface Caller {
  userId: string;
  admin: boolean;
}

/** `ck_<id>_<secret>`: the id finds the record, the secret's hash is compared in constant time. */
const pattern = /^ck_(key_[0-9a-z]{26})_([A-Za-z0-9_-]{43})$/;

export async function createKey(
  { store, ids, clock }: Deps,
  { userId, admin }: { userId: string; admin: boolean },
): Promise<{ id: string; key: string }> {
  const id = ids.key();
  const secret = randomBytes(32).toString("base64url");
  const hash = digest(secret).toString("base64");
  const outcome = await store.createKey({ id, userId, admin, hash, createdAt: clock.now() });
  if (!outcome.won) throw new AppError("internal", "The key could not be stored.");
  return { id, key: `ck_${id}_${secret}` };
}

export async function authenticate(
  { store, config }: Deps,
  adminKey: string,
  presented: string,
): Promise<Caller | undefined> {
  if (timingSafeEqual(digest(presented), digest(adminKey)))
    return { userId: config.adminUserId, admin: true };

  const [, id, secret] = pattern.exec(presented) ?? [];
  const key = id ? await store.getKey(id) : undefined;
  if (!key || !secret || !matches(key, secret)) return undefined;
  return { userId: key.userId, admin: key.admin };
}

function matches(key: Key, secret: string): boolean {
  return timingSafeEqual(digest(secret), Buffer.from(key.hash, "base64"));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
