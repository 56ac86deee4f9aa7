import type {
  Outcome,
  SessionChange,
  SessionGuard,
  Slot,
  Task,
  TaskChange,
  TaskGuard,
} from "@concierge/core";
import type { Actor, Call, Entry } from "./scheduler.ts";

/**
 * What one step read and what it changed. Two steps that share nothing that one of them changed give the same result in
 * either order.
 */
export interface Footprint {
  reads: ReadonlySet<string>;
  writes: ReadonlySet<string>;
}

export function haveConflict(a: Footprint, b: Footprint): boolean {
  const touchedBy =
    ({ reads, writes }: Footprint) =>
    (item: string) =>
      reads.has(item) || writes.has(item);
  return [...a.writes].some(touchedBy(b)) || [...b.writes].some(touchedBy(a));
}

/**
 * Steps that share nothing with any other: they start an invocation that then waits, wake an actor, write what nobody
 * reads here, or read what nobody writes here. This is checked: a call whose footprint is not declared below cannot be
 * made.
 */
export function isUnnoticeable(label: string): boolean {
  return unnoticeable.test(label);
}

const unnoticeable =
  /^(?:work|timers) delivers |: (?:timers\.arm|work\.send|store\.(?:getFlags|getUserLimits|getHolds|changeHold|putRecord|putPrompt|getBaseSnapshot|getWarm|listWarm)) |: (?:sleeps|waits|sends|asks for)/;

export function isOfSlots(label: string): boolean {
  return /: store\.(?:list|put|delete)Slots? /.test(label);
}

export type Footprints = ReturnType<typeof createFootprints>;

/** Records what each step touches. */
export function createFootprints() {
  /** What was done to items that no record shows, in order: the same actions leave the same state. */
  const deeds = new Map<string, readonly string[]>();
  let reads = new Set<string>();
  let writes = new Set<string>();

  return {
    deeds: deeds as ReadonlyMap<string, readonly string[]>,

    begin(): void {
      reads = new Set();
      writes = new Set();
    },

    answered(actor: Actor, call: Call, answer: unknown): void {
      const { looksAt = [], changes = [], doesTo } = touchedBy(call, answer);
      for (const item of looksAt) reads.add(item);
      for (const item of changes) writes.add(item);
      // An actor that waits for several responses at once may depend on which came first.
      writes.add(`what ${knowerOf(actor, call)} knows`);
      if (doesTo === undefined) return;
      const before = deeds.get(doesTo) ?? [];
      const isRemoved = before.at(-1)?.startsWith(removal) ?? true;
      // Removing what does not exist only reads it.
      if (call.label.startsWith(removal) && isRemoved) {
        reads.add(doesTo);
        return;
      }
      writes.add(doesTo);
      deeds.set(doesTo, [...before, call.label]);
      if (takesLives.test(call.label)) touchAgents();
    },

    /** What the step that was just taken touched. */
    end({ label }: Entry): Footprint {
      if (label.startsWith("the remote takes ")) {
        writes.add(remote);
        reads.add(status);
      }
      // A runner may end because of what it hears.
      if (label.includes(": hears of ")) touchAgents();
      return { reads, writes };
    },
  };

  /** The watch checks who is alive and which turns run at once. */
  function touchAgents(): void {
    writes.add(agents);
    reads.add(status);
  }
}

/** Items that no call names: the remote's, and what the watch looks at when it judges a step. */
const remote = "the remote";
const status = "the status of turns";
const agents = "who lives";
const removal = "provider.remove ";
const takesLives = /^provider\.(?:launch|sweep|remove) /;

interface Touched {
  looksAt?: readonly string[];
  changes?: readonly string[];
  /** Changed, and known only by what was done to it. */
  doesTo?: string;
}

function touchedBy(call: Call, answer: unknown): Touched {
  switch (call.port) {
    case "store":
      return touchedInStore(call, answer);
    case "provider":
      return touchedAtProvider(call, answer);
    case "git":
      return { looksAt: [remote] };
    case "work":
    case "timers":
      return {};
  }
}

function touchedInStore({ method, given }: Call, answer: unknown): Touched {
  switch (method) {
    case "getTask":
      return { looksAt: [`task ${given[0]}`] };
    case "createTask": {
      const item = `task ${(given[0] as Task).id}`;
      return hasWon<Task>(answer) ? { changes: [item, status] } : { looksAt: [item] };
    }
    case "changeTask":
      return touchedByTaskChange(given as [string, TaskGuard, TaskChange], answer);
    case "getSession":
      return { looksAt: [`session ${given[0]}#${given[1]}`] };
    case "changeSession": {
      const [userId, key, { lease: held }, { set }] = given as [string, string, SessionGuard, SessionChange];
      const item = `session ${userId}#${key}`;
      if (!hasWon(answer)) return { looksAt: [item] };
      // A session that moves to another turn: the watch checks whether its turn has started.
      const isTaken = set?.lease !== undefined && set.lease.taskId !== held?.taskId;
      return { changes: [item], looksAt: isTaken ? [status] : [] };
    }
    case "listSlots":
      return { looksAt: ["slots"] };
    case "putSlot":
    case "deleteSlot": {
      const name = method === "putSlot" ? (given[0] as Slot).name : given[0];
      return { doesTo: `slot ${name}`, changes: ["slots"] };
    }
    case "listIdleSessions":
      return { looksAt: ["idle sessions"] };
    case "addUsage":
      return { doesTo: "usage" };
    // Far below the limits: what is held decides nothing here.
    case "getUserLimits":
    case "getHolds":
    case "changeHold":
    // Only added to: no order of additions makes a difference, and no actor reads the sums.
    case "addMeasures":
    case "getFlags":
    case "putRecord":
    case "putPrompt":
    case "getPrompt":
    case "getBaseSnapshot":
    case "getWarm":
    case "listWarm":
      return {};
    default:
      throw new Error(`what store.${method} touches is to be said`);
  }
}

function touchedByTaskChange([id, { claimId }, { phase }]: [string, TaskGuard, TaskChange], answer: unknown) {
  // A worker that lost its claim learns only that (scenarios.ts).
  if (!hasWon<Task>(answer)) return { looksAt: [claimId === undefined ? `task ${id}` : `claim on ${id}`] };
  const { state, phases } = answer.item;
  const before = phase ? phases.at(-2)?.status : state.status;
  const isOfClaim = before === "provisioning" || state.status === "provisioning";
  // Every transition adds a phase.
  return { changes: [`task ${id}`, ...(phase ? [status] : []), ...(isOfClaim ? [`claim on ${id}`] : [])] };
}

function touchedAtProvider({ method, given: [first] }: Call, answer: unknown): Touched {
  const { name, tags } = typeof first === "string" ? { name: first } : (first as Named);
  const item = `sandbox ${name}`;
  const hasFailed = answer instanceof Error;
  switch (method) {
    case "probe":
    case "ask":
    case "guardNetwork":
      return { looksAt: [item] };
    case "create": {
      // The watch checks whether the session names it.
      const session = `session ${tags?.user}#${tags?.session}`;
      return hasFailed ? { looksAt: [item, session] } : { doesTo: item, looksAt: [session] };
    }
    case "writeFiles":
    case "extend":
    case "remove":
      return hasFailed ? { looksAt: [item] } : { doesTo: item };
    case "launch":
      return hasFailed || answer === "a launch that came second" ? { looksAt: [item] } : { doesTo: item };
    case "sweep":
      return hasFailed || answer === "superseded" ? { looksAt: [item] } : { doesTo: item };
    default:
      throw new Error(`what provider.${method} touches is to be said`);
  }
}

interface Named {
  name: string;
  tags?: Readonly<Record<string, string>>;
}

function hasWon<T>(answer: unknown): answer is Extract<Outcome<T>, { won: true }> {
  return (answer as Outcome<T>).won === true;
}

/** Who learns the response. A claim is renewed beside everything else its worker does; the two share only their end. */
export function knowerOf({ name }: Actor, { method, given }: Call): string {
  const isOfClaim = method === "changeTask" && (given[1] as TaskGuard).claimId !== undefined;
  return isOfClaim ? claimOf(name) : name;
}

export function claimOf(actor: string): string {
  return `the claim of ${actor}`;
}
