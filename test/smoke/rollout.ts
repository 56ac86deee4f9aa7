import { setTimeout as sleep } from "node:timers/promises";
import { type AllFlags, allFlags, flagNames, isOnFor } from "@concierge/core";
import { createClient } from "../testing/client.ts";
import { smoke } from "./smoke.ts";

export interface RolloutOptions {
  url: string;
  apiKey: string;
  /** The value of all five flags during the test: `on`, `off` or a percentage. Absent: unchanged. */
  to?: string | undefined;
  /** How long functions may use flags they read before. */
  settleMs: number;
  log: (line: string) => void;
  signal: AbortSignal;
}

/**
 * Sets the flags, then tests the deployed stage as a user with the five mechanisms and as one without. If that fails or
 * is interrupted, the flags are restored. True if everything passed.
 */
export async function rollout(options: RolloutOptions): Promise<boolean> {
  const { to, settleMs, log, signal } = options;
  const admin = createClient(options);
  const before = (await admin.json("GET", "/v1/flags")) as AllFlags;
  try {
    if (to !== undefined) {
      await admin.json("PUT", "/v1/flags", allFlags(to));
      log(`all flags are ${to} now; waiting ${settleMs} ms for every function to know`);
      await sleep(settleMs, undefined, { signal });
    }
    const flags = to === undefined ? before : allFlags(to);
    for (const userId of usersFor(flags)) await smoke({ ...options, userId });
    return true;
  } catch (error) {
    log(`failed: ${error instanceof Error ? error.message : String(error)}`);
    if (to !== undefined) {
      await admin.json("PUT", "/v1/flags", before);
      log("the flags are what they were before");
    }
    return false;
  }
}

/** A user for whom each flag is on, and one for whom each is off, if there are any. */
export function usersFor(flags: AllFlags): string[] {
  const wanted = [true, false].filter((on) => flagNames.every((name) => flags[name] !== (on ? "off" : "on")));
  // Some flags are on and some off: any user will do.
  if (wanted.length === 0) return ["smoke"];
  return wanted.map((on) => findUser(flags, on));
}

function findUser(flags: AllFlags, on: boolean): string {
  for (let n = 0; n < usersTried; n++) {
    const userId = `smoke-${n}`;
    if (flagNames.every((name) => isOnFor(flags[name], name, userId) === on)) return userId;
  }
  throw new Error(
    `of ${usersTried} users none has every flag ${on ? "on" : "off"}: ${JSON.stringify(flags)}`,
  );
}

/** At 1 % for each of five flags no user is found; at 10 % it takes a hundred thousand. */
const usersTried = 1_000_000;
