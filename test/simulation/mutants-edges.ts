import { ProviderError, type Store } from "@concierge/core";
import type { NamedMutant } from "./mutants.ts";
import { onTaskWrite, withProvider, withStore } from "./mutate.ts";
import { verbs } from "./verbs.ts";
import type { Mutant, Ports, Role } from "./world.ts";

/** Deliberate bugs at the edges: ambiguous errors, lost responses, limits that are not enforced. */
export const edgeMutants: readonly NamedMutant[] = [
  {
    name: "an unanswered sweep counts as proof",
    breaks: [3],
    rare: { from: 85 },
    plant: () => onSweepFailure("clean"),
  },
  {
    name: "one unanswered sweep deletes the kept sandbox",
    breaks: [11],
    plant: () => onSweepFailure("alive"),
  },
  {
    name: "asking about silence counts as activity",
    breaks: [4],
    isLong: true,
    plant: () => livelyFor(["timer", "reaper"]),
  },
  {
    name: "a beat counts as activity forever",
    breaks: [4],
    isLong: true,
    plant: () => livelyFor(["api"]),
  },
  {
    name: "a killed runner counts as working",
    breaks: [4],
    isLong: true,
    plant: () => ({
      ports: (deps) =>
        withProvider(deps, {
          async ask(...call) {
            const { state } = await deps.provider.ask(...call);
            const at = deps.clock.now();
            return { launch: "running", state: state && { ...state, at, activity: "tool" } };
          },
        }),
    }),
  },
  {
    name: "a silent remote is asked about a push forever",
    breaks: [4],
    isLong: true,
    plant: () => ({
      ports: (deps) =>
        withStore(deps, {
          async changeTask(id, guard, change) {
            const state = change.set?.state;
            const isGivenUp = state?.status === "failed" && state.error.detail.includes("unknown");
            if (!isGivenUp) return await deps.store.changeTask(id, guard, change);
            return { won: false, item: await deps.store.getTask(id) };
          },
        }),
    }),
  },
  {
    name: "an attempt to end a turn is not recorded before it is made",
    breaks: [4],
    plant: () => pretendWrite((guard) => guard.attempts !== undefined),
  },
  {
    name: "the reaper does not move the due time before it acts",
    breaks: [4],
    rare: { from: 135 },
    plant: () => pretendWrite((guard) => guard.dueAt !== undefined),
  },
  {
    name: "the follow-up depends on its message alone",
    breaks: [12],
    plant: () =>
      onTaskWrite((id, guard, change) => {
        const isEnd = change.set?.state !== undefined && "endedAt" in change.set.state;
        if (!isEnd) return [id, guard, change];
        const { dueAt: _, ...set } = change.set ?? {};
        return [id, guard, { ...change, set, remove: [...(change.remove ?? []), "dueAt"] }];
      }),
  },
  { name: "continue binds its key before the checks", breaks: [12], plant: bindKeyFirst },
  {
    name: "a stopped sandbox counts as gone",
    breaks: [11],
    plant: () => ({
      ports: (deps) =>
        withProvider(deps, {
          async probe(name) {
            const found = await deps.provider.probe(name);
            return found.health === "resumable" ? { health: "gone" } : found;
          },
        }),
    }),
  },
  {
    name: "a launch into a stopped sandbox forgets the sandbox",
    breaks: [11],
    plant: () => ({
      ports: (deps) =>
        withProvider(deps, { launch: (...call) => as("stopped", "gone", deps.provider.launch(...call)) }),
    }),
  },
  {
    name: "a refused resume creates another sandbox",
    breaks: [11],
    rare: { from: 235 },
    plant: () => ({
      ports: (deps) =>
        withProvider(deps, { resume: (name) => as("refused", "gone", deps.provider.resume(name)) }),
    }),
  },
  {
    name: "a snapshot whose response was lost counts as refused, and files are lost",
    breaks: [11],
    plant: () => ({
      ports: (deps) =>
        withProvider(deps, {
          snapshot: (...call) => as("stopped", "refused", deps.provider.snapshot(...call)),
        }),
    }),
  },
  {
    name: "a refused provision fails its turn without proof",
    breaks: [3],
    rare: { from: 385 },
    plant: () =>
      onTaskWrite((id, guard, change) => {
        const state = change.set?.state;
        if (guard.claimId === undefined || state?.status !== "stopping") return [id, guard, change];
        const { error } = state;
        const failed = { status: "failed", endedAt: 0, result: null, error } as const;
        const phase = change.phase && { ...change.phase, status: "failed" as const };
        return [id, guard, { ...change, set: { ...change.set, state: failed }, ...(phase && { phase }) }];
      }),
  },
  {
    name: "a runner obeys any refusal",
    breaks: [6],
    plant: () => ({
      classify: (_kind, { status, body }) => {
        if (status === 200) return heard(body);
        const isRefused = [401, 403, 404, 409, 410].includes(status);
        return isRefused ? { kind: "action", action: "stop" } : { kind: "retry", afterMs: 0 };
      },
    }),
  },
];

function heard(body: string): ReturnType<NonNullable<Mutant["classify"]>> {
  try {
    const { action } = JSON.parse(body);
    return action === "go" ? { kind: "granted", credential: null } : { kind: "action", action };
  } catch {
    return { kind: "retry", afterMs: 0 };
  }
}

/** What is reported for a sandbox whose sweep got no answer. */
function onSweepFailure(found: "clean" | "alive"): Mutant {
  return {
    ports: (deps) =>
      withProvider(deps, {
        sweep: (...call) =>
          deps.provider.sweep(...call).catch((error: unknown) => {
            if (error instanceof ProviderError && error.kind === "transient") return found;
            throw error;
          }),
      }),
  };
}

async function as<T>(
  kind: ProviderError["kind"],
  other: ProviderError["kind"],
  answer: Promise<T>,
): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof ProviderError && error.kind === kind)) throw error;
    throw new ProviderError(other, error.message);
  }
}

/** A sign of life is written as activity, from which the cap on silent work counts. */
function livelyFor(roles: readonly Role[]): Mutant {
  return {
    ports: (deps, role) =>
      !roles.includes(role)
        ? deps
        : withStore(deps, {
            changeTask(id, guard, change) {
              const { aliveAt } = change.set ?? {};
              const set = aliveAt === undefined ? change.set : { ...change.set, lastActivityAt: aliveAt };
              return deps.store.changeTask(id, guard, { ...change, ...(set && { set }) });
            },
          }),
  };
}

type Guard = Parameters<Store["changeTask"]>[1];

/** The write is skipped; the writer believes that it won. */
function pretendWrite(isPretended: (guard: Guard) => boolean): Mutant {
  return {
    ports: (deps: Ports) =>
      withStore(deps, {
        async changeTask(id, guard, change) {
          if (!isPretended(guard)) return await deps.store.changeTask(id, guard, change);
          const item = await deps.store.getTask(id);
          return item ? { won: true, item: { ...item, ...change.set } } : { won: false, item };
        },
      }),
  };
}

/** The key is bound to the next turn before anything is checked. */
function bindKeyFirst(): Mutant {
  return {
    verbs: {
      async continueTask(deps, userId, id, request, key) {
        if (key === undefined) return await verbs.continueTask(deps, userId, id, request);
        const task = await deps.store.getTask(id);
        if (!task) return await verbs.continueTask(deps, userId, id, request);
        const bound = await deps.store.claimIdempotencyKey(`${userId}#${id}#${key}`, {
          taskId: id,
          turn: task.turn + 1,
          requestHash: "",
          expiresAt: deps.clock.now() + 86_400_000,
        });
        if (bound.item && task.turn >= bound.item.turn) return task;
        return await verbs.continueTask(deps, userId, id, request);
      },
    },
  };
}
