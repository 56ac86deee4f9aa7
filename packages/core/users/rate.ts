import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { minuteOf, untilNextMinuteMs } from "./decide.ts";
import { limitsOf } from "./limits.ts";
import type { UserLimits } from "./schema.ts";

/** How long a user's limits are used before they are read again. */
const limitsFreshMs = 10_000;
/** A process adds its counts to the table after this share of a limit, so a write pays for many requests. */
const shareOfLimit = 1 / 40;
/** How many users are remembered between two minutes. */
const usersMax = 10_000;
const minuteMs = 60_000;

interface Counter {
  /** In the table when this process last wrote, including its own. */
  known: number;
  /** Of this process, not in the table yet. */
  unwritten: number;
}

interface Window {
  minute: number;
  user: Counter;
  keys: Map<string, Counter>;
}

export type RateLimiter = ReturnType<typeof createRateLimiter>;

/**
 * Counts requests per minute, per user and per key. Each process counts in memory and adds its counts to the table every
 * few requests, where it also learns what the others counted. So a limit can be exceeded by at most what the other
 * processes have not written yet, and a slow caller causes no writes at all.
 */
export function createRateLimiter(deps: Pick<Deps, "store" | "clock" | "config" | "metrics">) {
  const windows = new Map<string, Window>();
  const limits = new Map<string, { limits: UserLimits; readAt: number }>();

  /** Throws `rate_limited` if this request is one too many. */
  return async function countRequest(userId: string, keyId: string): Promise<void> {
    const now = deps.clock.now();
    const { requestsPerMinute, requestsPerMinutePerKey } = await freshLimits(userId, now);
    const window = windowOf(userId, minuteOf(now));
    const key = counterOf(window, keyId);
    if (isFull(window.user, requestsPerMinute) || isFull(key, requestsPerMinutePerKey)) {
      deps.metrics.count("limit_refused", 1, { limit: "rate_limited" });
      const detail = `You sent more than ${Math.min(requestsPerMinute, requestsPerMinutePerKey)} requests in this minute.`;
      throw new AppError("rate_limited", detail, { retryAfterMs: untilNextMinuteMs(now) });
    }
    window.user.unwritten += 1;
    key.unwritten += 1;
    const isDue =
      window.user.unwritten >= stepOf(requestsPerMinute) || key.unwritten >= stepOf(requestsPerMinutePerKey);
    // Best effort: if the table does not answer, this process goes on with what it knows.
    if (isDue) await write(userId, keyId, window, key).catch(() => {});
  };

  async function write(userId: string, keyId: string, window: Window, key: Counter): Promise<void> {
    const by = { user: window.user.unwritten, key: key.unwritten };
    // Before the write, so that concurrent requests do not add the same counts again.
    window.user.unwritten = 0;
    key.unwritten = 0;
    window.user.known += by.user;
    key.known += by.key;
    const expiresAt = (window.minute + 5) * minuteMs;
    const sums = await deps.store.countRequests(userId, window.minute, keyId, by, expiresAt);
    window.user.known = Math.max(window.user.known, sums.user);
    key.known = Math.max(key.known, sums.key);
  }

  async function freshLimits(userId: string, now: number): Promise<UserLimits> {
    const known = limits.get(userId);
    if (known && now - known.readAt < limitsFreshMs) return known.limits;
    const read = await limitsOf(deps, userId);
    if (limits.size >= usersMax) limits.clear();
    limits.set(userId, { limits: read, readAt: now });
    return read;
  }

  function windowOf(userId: string, minute: number): Window {
    const current = windows.get(userId);
    if (current?.minute === minute) return current;
    if (windows.size >= usersMax) windows.clear();
    const fresh = { minute, user: { known: 0, unwritten: 0 }, keys: new Map() };
    windows.set(userId, fresh);
    return fresh;
  }
}

function counterOf({ keys }: Window, keyId: string): Counter {
  const counter = keys.get(keyId) ?? { known: 0, unwritten: 0 };
  keys.set(keyId, counter);
  return counter;
}

function isFull({ known, unwritten }: Counter, limit: number): boolean {
  return known + unwritten >= limit;
}

function stepOf(limit: number): number {
  return Math.max(Math.floor(limit * shareOfLimit), 1);
}
