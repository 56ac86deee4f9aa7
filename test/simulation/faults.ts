import { limits, ProviderError } from "@concierge/core";
import type { Random } from "./random.ts";
import type { Call, Entry, Fault, Plan } from "./scheduler.ts";

/** How much goes wrong, as probabilities of a call, a message or a minute. Each seed draws its own weather. */
export interface Weather {
  delay: number;
  storeFails: number;
  queueFails: number;
  providerFails: number;
  providerHangs: number;
  crash: number;
  drop: number;
  duplicate: number;
  staleIndex: number;
  networkFails: number;
  sandboxLost: number;
  skewMs: number;
}

export function drawWeather(random: Random): Weather {
  const some = (most: number): number => (random.chance(0.35) ? 0 : random.next() * most);
  return {
    delay: some(0.12),
    storeFails: some(0.02),
    queueFails: some(0.04),
    providerFails: some(0.15),
    providerHangs: some(0.1),
    crash: some(0.02),
    drop: some(0.15),
    duplicate: some(0.2),
    staleIndex: some(0.5),
    networkFails: some(0.1),
    sandboxLost: some(0.3),
    skewMs: random.pick([0, 2_000, 60_000]),
  };
}

export const calm: Weather = {
  delay: 0,
  storeFails: 0,
  queueFails: 0,
  providerFails: 0,
  providerHangs: 0,
  crash: 0,
  drop: 0,
  duplicate: 0,
  staleIndex: 0,
  networkFails: 0,
  sandboxLost: 0,
  skewMs: 60_000,
};

const clientTimeoutMs: Record<string, number> = { create: 60_000, sweep: 5_000 };

/** A plan in which chance picks who goes next and what befalls them. */
export function randomPlan(random: Random, weather: Weather): Plan {
  return {
    latencyMs: () => random.between(1, 40),
    pick: (runnable: readonly Entry[]) => random.pick(runnable),
    fault: (call) => drawFault(random, weather, call),
  };
}

function drawFault(random: Random, weather: Weather, call: Call): Fault {
  if (random.chance(weather.crash)) return { kind: random.chance(0.5) ? "crash before" : "crash after" };
  if (random.chance(weather.delay)) {
    return { kind: random.chance(0.5) ? "delay" : "answer late", ms: drawDelayMs(random) };
  }
  switch (call.port) {
    case "store":
      return random.chance(weather.storeFails)
        ? failure(random, new Error("The table does not answer."))
        : none;
    case "work":
    case "timers":
      return random.chance(weather.queueFails)
        ? failure(random, new Error("The queue does not answer."))
        : none;
    case "git":
      return random.chance(weather.providerFails)
        ? failure(random, new Error("The remote does not answer."))
        : none;
    case "provider":
      return drawProviderFault(random, weather, call.method);
  }
}

function drawProviderFault(random: Random, weather: Weather, method: string): Fault {
  if (random.chance(weather.providerHangs)) {
    return {
      kind: "hang",
      error: new ProviderError("transient", "The provider did not answer in time."),
      timeoutMs: clientTimeoutMs[method] ?? 30_000,
      commitMs: random.chance(0.3) ? undefined : random.between(0, limits.longestCreateMs),
    };
  }
  if (!random.chance(weather.providerFails)) return none;
  // A refusal is a decision: what was refused was not done.
  if (method === "create" && random.chance(0.1)) {
    return { kind: "fail before", error: new ProviderError("refused", "The provider refuses.") };
  }
  if (random.chance(0.3)) {
    return { kind: "fail before", error: new ProviderError("throttled", "The provider is busy.") };
  }
  return failure(random, new ProviderError("transient", "The provider failed."));
}

/** Mostly a moment; now and then long enough for a claim, a lease or a deadline to run out meanwhile. */
function drawDelayMs(random: Random): number {
  return random.chance(0.6) ? random.between(1, 3_000) : random.between(3_000, 150_000);
}

const none: Fault = { kind: "none" };

function failure(random: Random, error: Error): Fault {
  return { kind: random.chance(0.5) ? "fail before" : "fail after", error };
}
