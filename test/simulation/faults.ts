import { limits, ProviderError, type ProviderFailure } from "@concierge/core";
import type { Random } from "./random.ts";
import type { Call, Entry, Fault, Plan } from "./scheduler.ts";

/** How much goes wrong, as probabilities per call, message or minute. Each seed draws its own. */
export interface Weather {
  delay: number;
  storeFails: number;
  /** The response of a write is lost, and the SDK writes again. */
  storeRepeats: number;
  queueFails: number;
  providerFails: number;
  providerHangs: number;
  providerRepeats: number;
  /** The provider refuses a call: 400, 401, 402 or 403. */
  providerRefuses: number;
  /** A function dies in a call that hangs. */
  deadlyHangs: number;
  crash: number;
  drop: number;
  duplicate: number;
  staleIndex: number;
  networkFails: number;
  /** Something between runners and the api answers in its place. */
  hostileEdge: number;
  sandboxLost: number;
  /** A sandbox stops just before it is used. */
  sandboxStops: number;
  skewMs: number;
  trouble: Trouble | undefined;
}

/** A call that fails every time during a period. */
export interface Trouble {
  name: string;
  port: "provider" | "git";
  methods: readonly string[];
  kind: ProviderFailure;
  /** Time since the start. */
  fromMs: number;
  toMs: number;
}

const troubles: readonly Pick<Trouble, "name" | "methods" | "kind">[] = [
  { name: "resumes are refused", methods: ["resume"], kind: "refused" },
  { name: "sweeps get no answer", methods: ["sweep"], kind: "transient" },
  { name: "sweeps are refused", methods: ["sweep"], kind: "refused" },
  { name: "looks get no answer", methods: ["probe", "ask"], kind: "transient" },
  { name: "removals are refused", methods: ["remove"], kind: "refused" },
  { name: "launches get no answer", methods: ["launch"], kind: "transient" },
  { name: "creates are throttled", methods: ["create", "resume"], kind: "throttled" },
  { name: "extending and snapshots are refused", methods: ["extend", "snapshot"], kind: "refused" },
  {
    name: "the provider does not take our token",
    methods: [
      "create",
      "probe",
      "resume",
      "launch",
      "sweep",
      "ask",
      "list",
      "remove",
      "writeFiles",
      "extend",
    ],
    kind: "refused",
  },
];

export function drawWeather(random: Random, { isLong }: { isLong: boolean }): Weather {
  const some = (most: number): number => (random.chance(0.35) ? 0 : random.next() * most);
  return {
    delay: some(0.12),
    storeFails: some(0.02),
    storeRepeats: some(0.02),
    queueFails: some(0.04),
    providerFails: some(0.15),
    providerHangs: some(0.1),
    providerRepeats: some(0.05),
    providerRefuses: some(0.02),
    deadlyHangs: some(0.3),
    crash: some(0.02),
    drop: some(0.15),
    // A timer that fires twice is armed twice from then on: over a long turn there would be thousands.
    duplicate: some(isLong ? 0.03 : 0.2),
    staleIndex: some(0.5),
    networkFails: some(0.1),
    hostileEdge: some(0.1),
    sandboxLost: some(0.3),
    sandboxStops: some(0.04),
    skewMs: random.pick([0, 2_000, 60_000]),
    trouble: drawTrouble(random, isLong),
  };
}

function drawTrouble(random: Random, isLong: boolean): Trouble | undefined {
  // The remote is gone for good: the outcome of a push is never known.
  if (isLong && random.chance(0.4)) {
    return { ...gitDown, fromMs: random.between(0, 60_000), toMs: Number.POSITIVE_INFINITY };
  }
  if (!random.chance(0.4)) return undefined;
  const fromMs = random.between(0, 240_000);
  return {
    port: "provider",
    ...random.pick(troubles),
    fromMs,
    toMs: fromMs + random.between(60_000, 240_000),
  };
}

const gitDown = {
  name: "the remote is gone",
  port: "git",
  methods: ["readBranch"],
  kind: "transient",
} as const;

export const calm: Weather = {
  delay: 0,
  storeFails: 0,
  storeRepeats: 0,
  queueFails: 0,
  providerFails: 0,
  providerHangs: 0,
  providerRepeats: 0,
  providerRefuses: 0,
  deadlyHangs: 0,
  crash: 0,
  drop: 0,
  duplicate: 0,
  staleIndex: 0,
  networkFails: 0,
  hostileEdge: 0,
  sandboxLost: 0,
  sandboxStops: 0,
  skewMs: 60_000,
  trouble: undefined,
};

const clientTimeoutMs: Record<string, number> = {
  create: 60_000,
  resume: 60_000,
  snapshot: 60_000,
  sweep: 5_000,
  probe: 10_000,
  readBranch: 15_000,
};

/** A plan in which chance picks the next actor and its fault. */
export function randomPlan(random: Random, weather: Weather, elapsedMs: () => number): Plan {
  return {
    latencyMs: () => random.between(1, 40),
    pick: (runnable: readonly Entry[]) => random.pick(runnable),
    fault: (call) => drawFault(random, weather, call, elapsedMs()),
  };
}

function drawFault(random: Random, weather: Weather, call: Call, elapsedMs: number): Fault {
  const isOutside = call.port === "provider" || call.port === "git";
  // Like the adapters: with no time left the call is not made.
  if (isOutside && call.timeLeftMs <= 0) return { kind: "fail before", error: noAnswer(call) };
  if (random.chance(weather.crash)) return { kind: random.chance(0.5) ? "crash before" : "crash after" };
  if (random.chance(weather.delay)) return delayed(random, weather, call, isOutside);
  switch (call.port) {
    case "store":
      if (isRepeated(call) && random.chance(weather.storeRepeats)) return { kind: "repeat" };
      return random.chance(weather.storeFails)
        ? failure(random, new Error("The table does not answer."))
        : none;
    case "work":
    case "timers":
      return random.chance(weather.queueFails)
        ? failure(random, new Error("The queue does not answer."))
        : none;
    case "git":
      if (isInTrouble(weather.trouble, call, elapsedMs))
        return { kind: "fail before", error: noAnswer(call) };
      return random.chance(weather.providerFails) ? failure(random, noAnswer(call)) : none;
    case "provider":
      return drawProviderFault(random, weather, call, elapsedMs);
  }
}

/** Writes whose repetition the store detects by their condition. A sum has no condition and would be added twice. */
function isRepeated({ method }: Call): boolean {
  return method !== "addUsage";
}

function drawProviderFault(random: Random, weather: Weather, call: Call, elapsedMs: number): Fault {
  const { trouble } = weather;
  if (trouble && isInTrouble(trouble, call, elapsedMs)) {
    const error = new ProviderError(trouble.kind, `The provider fails: ${trouble.name}.`);
    return trouble.kind === "transient" ? failure(random, error) : { kind: "fail before", error };
  }
  if (random.chance(weather.providerHangs)) {
    const commitMs = random.chance(0.3) ? undefined : random.between(0, limits.longestCreateMs);
    return hang(random, weather, call, commitMs);
  }
  // Rare calls get more faults.
  const often = call.method === "snapshot" ? 5 : 1;
  if (random.chance(weather.providerRepeats * often)) return { kind: "repeat" };
  // A refusal is a decision: what was refused did not happen.
  const isCreate = call.method === "create" && random.chance(weather.providerFails * 0.1);
  if (isCreate || random.chance(weather.providerRefuses)) {
    return { kind: "fail before", error: new ProviderError("refused", "The provider refuses.") };
  }
  if (!random.chance(weather.providerFails)) return none;
  if (random.chance(0.3)) {
    const retryAfterMs = random.chance(0.5) ? random.between(1_000, 30_000) : undefined;
    return {
      kind: "fail before",
      error: new ProviderError("throttled", "The provider is busy.", { retryAfterMs }),
    };
  }
  return failure(random, new ProviderError("transient", "The provider failed."));
}

function isInTrouble(trouble: Trouble | undefined, { port, method }: Call, elapsedMs: number): boolean {
  if (trouble?.port !== port || !trouble.methods.includes(method)) return false;
  return elapsedMs >= trouble.fromMs && elapsedMs < trouble.toMs;
}

/** A call to the outside is given up once its time is over, even if a response would still come. */
function delayed(random: Random, weather: Weather, call: Call, isOutside: boolean): Fault {
  const kind = random.chance(0.5) ? "delay" : "answer late";
  const ms = drawDelayMs(random);
  if (!isOutside || ms < patienceMs(call)) return { kind, ms };
  return hang(random, weather, call, kind === "delay" ? ms : 0);
}

function hang(random: Random, weather: Weather, call: Call, commitMs: number | undefined): Fault {
  const isDeadly = random.chance(weather.deadlyHangs);
  return { kind: "hang", error: noAnswer(call), timeoutMs: patienceMs(call), commitMs, isDeadly };
}

function patienceMs({ method, timeLeftMs }: Call): number {
  return Math.min(clientTimeoutMs[method] ?? 30_000, timeLeftMs);
}

function noAnswer({ port }: Call): Error {
  return port === "git"
    ? new Error("The remote does not answer.")
    : new ProviderError("transient", "The provider did not answer in time.");
}

/** Usually a moment; sometimes long enough for a claim, a lease or a deadline to expire. */
function drawDelayMs(random: Random): number {
  return random.chance(0.6) ? random.between(1, 3_000) : random.between(3_000, 150_000);
}

const none: Fault = { kind: "none" };

function failure(random: Random, error: Error): Fault {
  return { kind: random.chance(0.5) ? "fail before" : "fail after", error };
}
