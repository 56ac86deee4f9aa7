import { memoryGbPerVcpu, sandboxVcpus } from "../limits.ts";
import type { Session } from "../session/schema.ts";
import type { SandboxUse, Task } from "../task/schema.ts";
import { type Price, priceOn } from "./prices.ts";
import type { Amount, Counters, DayCost, UsageRecord } from "./schema.ts";

/** How long a new sandbox takes to be ready, if none was measured that day: create 2 s, install 5 s. */
const assumedInitMs = 7000;
const fresh = ["cold", "snapshot"] as const;

export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

/** What an ended turn used of its sandbox; nothing if it had none. */
export function usageOf({ sandbox, startedAt, state }: Task): Counters | undefined {
  if (!sandbox || startedAt === undefined || !("endedAt" in state)) return undefined;
  const { origin, initMs = 0, idleMs, replaced } = sandbox;
  return {
    turns: 1,
    agentMs: state.agentMs ?? Math.max(state.endedAt - startedAt, 0),
    [`turns_${origin}`]: 1,
    [`initMs_${origin}`]: initMs,
    ...stepsOf(sandbox),
    ...(isMade(origin) && { creations: 1 }),
    ...(idleMs !== undefined && { idleMs }),
    ...(replaced !== undefined && { [`replaced_${replaced}`]: 1 }),
  };
}

function isMade(origin: SandboxUse["origin"]): boolean {
  return origin !== "reused" && origin !== "resumed";
}

function stepsOf({ steps = {} }: SandboxUse): Counters {
  return Object.fromEntries(Object.entries(steps).map(([step, ms]) => [`stepMs_${step}`, ms]));
}

/** How long a sandbox that is released now was idle. */
export function idleOf({ sandbox }: Session, idleSince: number, now: number): number {
  return sandbox?.state === "ready" ? Math.max(Math.min(now, sandbox.expiresAt) - idleSince, 0) : 0;
}

/** A user's day: the actual cost, and what a sandbox per message would have cost. */
export function costOf({ day, userId, counters }: UsageRecord): DayCost {
  const price = priceOn(day);
  const turns = counters.turns ?? 0;
  const agentMs = counters.agentMs ?? 0;
  const origins = startingWith(counters, "turns_");
  const initMs = sum(Object.values(startingWith(counters, "initMs_")));
  const used = amountOf(price, initMs + agentMs, counters.idleMs ?? 0, counters.creations ?? 0);
  const perMessage = amountOf(price, freshInitMs(counters) * turns + agentMs, 0, turns);
  return { day, userId, turns, origins, used, perMessage, savedRatio: savedBy(used, perMessage) };
}

export function totalOf(days: readonly DayCost[]): {
  turns: number;
  used: Amount;
  perMessage: Amount;
  savedRatio: number;
} {
  const used = add(days.map((day) => day.used));
  const perMessage = add(days.map((day) => day.perMessage));
  return {
    turns: sum(days.map(({ turns }) => turns)),
    used,
    perMessage,
    savedRatio: savedBy(used, perMessage),
  };
}

/** The share of turns that reused their session's sandbox. */
export function reuseRateOf(records: readonly UsageRecord[]): number | null {
  const turns = sum(records.map(({ counters }) => counters.turns ?? 0));
  const reused = sum(
    records.map(({ counters }) => (counters.turns_reused ?? 0) + (counters.turns_resumed ?? 0)),
  );
  return turns === 0 ? null : reused / turns;
}

function freshInitMs(counters: Counters): number {
  const made = sum(fresh.map((origin) => counters[`turns_${origin}`] ?? 0));
  return made === 0 ? assumedInitMs : sum(fresh.map((origin) => counters[`initMs_${origin}`] ?? 0)) / made;
}

function amountOf(price: Price, busyMs: number, idleMs: number, creations: number): Amount {
  const vcpuSeconds = (busyMs / 1000) * sandboxVcpus;
  const gbHours = ((busyMs + idleMs) / 3_600_000) * sandboxVcpus * memoryGbPerVcpu;
  const usd = vcpuSeconds * price.vcpuSecondUsd + gbHours * price.gbHourUsd + creations * price.creationUsd;
  return { vcpuSeconds, gbHours, creations, usd };
}

function add(amounts: readonly Amount[]): Amount {
  const of = (name: keyof Amount) => sum(amounts.map((amount) => amount[name]));
  return {
    vcpuSeconds: of("vcpuSeconds"),
    gbHours: of("gbHours"),
    creations: of("creations"),
    usd: of("usd"),
  };
}

function savedBy(used: Amount, perMessage: Amount): number {
  return perMessage.vcpuSeconds === 0 ? 0 : 1 - used.vcpuSeconds / perMessage.vcpuSeconds;
}

function startingWith(counters: Counters, prefix: string): Record<string, number> {
  const found = Object.entries(counters).filter(([name]) => name.startsWith(prefix));
  return Object.fromEntries(found.map(([name, value]) => [name.slice(prefix.length), value]));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
