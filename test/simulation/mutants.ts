import { statuses, type UnclaimedWarmSandbox } from "@concierge/core";
import {
  armAfterLaunch,
  grantBeforeWrite,
  neverDue,
  onSessionWrite,
  onTaskWrite,
  recordAfterCreate,
  trustClaim,
  trustIndex,
  withProvider,
  withStore,
} from "./mutate.ts";
import { type Scenario, theRace } from "./scenarios.ts";
import type { Mutant } from "./world.ts";

/** A deliberate bug, and the invariants of which the simulation finds one broken. */
export interface NamedMutant {
  name: string;
  breaks: readonly number[];
  /** It takes a rare history: the first seed to try, or the race whose every order is tried. */
  rare?: { from: number } | { orders: Scenario };
  /** Only histories with long turns show it. */
  isLong?: true;
  plant(): Mutant;
}

/** Each is a mistake that someone could make in good faith. None is in the core: they are at its ports. */
export const mutants: readonly NamedMutant[] = [
  {
    name: "the condition on the status is dropped",
    breaks: [2, 3, 6, 8],
    plant: () => onTaskWrite((id, guard, change) => [id, { ...guard, status: statuses }, change]),
  },
  {
    name: "the condition on the turn is dropped",
    breaks: [6],
    rare: { from: 35 },
    plant: () => ({
      table: (store) => ({
        ...store,
        async changeTask(id, guard, change) {
          const task = await store.getTask(id);
          return await store.changeTask(id, { ...guard, turn: task?.turn ?? guard.turn }, change);
        },
      }),
    }),
  },
  {
    name: "the condition on the lease is dropped",
    breaks: [1, 3, 5, 6, 11],
    plant: () =>
      onSessionWrite((userId, key, guard, change) => {
        const unfenced = guard.epoch === undefined ? {} : { epoch: guard.epoch };
        return [userId, key, guard.lease === null ? guard : unfenced, change];
      }),
  },
  {
    name: "the condition on the epoch is dropped",
    breaks: [1, 3, 5, 6, 11],
    plant: () =>
      onSessionWrite((userId, key, { epoch: _, ...guard }, change) => [userId, key, guard, change]),
  },
  {
    name: "a batch is accepted without the one before",
    breaks: [6, 8],
    plant: () => onTaskWrite((id, { outputSeq: _, ...guard }, change) => [id, guard, change]),
  },
  {
    name: "a batch is committed before its record is written",
    breaks: [8],
    plant: () => ({
      ports: (deps) =>
        withStore(deps, {
          async putRecord(taskId, record, expiresAt) {
            if (record.kind === "progress") return await deps.store.putRecord(taskId, record, expiresAt);
            void deps.store.putRecord(taskId, record, expiresAt).catch(() => {});
          },
        }),
    }),
  },
  {
    name: "the proof is skipped",
    breaks: [3],
    plant: () => ({ ports: (deps) => withProvider(deps, { sweep: async () => "clean" as const }) }),
  },
  {
    name: "a sweep does not bar a later launch",
    breaks: [3],
    plant: () => ({
      ports: (deps) =>
        withProvider(deps, {
          async sweep(sandbox, runDir) {
            const hasBegun = (await deps.provider.ask(sandbox, runDir, undefined)).state !== undefined;
            return hasBegun ? await deps.provider.sweep(sandbox, runDir) : "clean";
          },
        }),
    }),
  },
  {
    name: "a late sweep kills the next turn",
    breaks: [6],
    rare: { from: 3580 },
    plant: () => ({
      ports: (deps) =>
        withProvider(deps, {
          sweep: (sandbox, runDir) => deps.provider.sweep(sandbox, runDir, { evenIfSuperseded: true }),
        }),
    }),
  },
  {
    name: "a failed removal counts as done",
    breaks: [1, 3, 5, 7],
    rare: { from: 130 },
    plant: () => ({
      ports: (deps) => withProvider(deps, { remove: (name) => deps.provider.remove(name).catch(() => {}) }),
    }),
  },
  { name: "the sandbox's name is recorded after the create", breaks: [5], plant: recordAfterCreate },
  {
    name: "a probe brings a removed sandbox back",
    breaks: [5, 7],
    plant: () => ({
      ports: (deps) =>
        withProvider(deps, {
          async probe(name) {
            const found = await deps.provider.probe(name);
            if (found.health !== "gone") return found;
            const tags = { app: "concierge", stage: deps.config.stage };
            const sandbox = await deps.provider.create({ name, tags, timeoutMs: 300_000 });
            return { health: "healthy" as const, sandbox };
          },
        }),
    }),
  },
  { name: "a worker does not check its claim again", breaks: [3], plant: trustClaim },
  {
    name: "a sandbox becomes ready without renewing the lease",
    breaks: [3, 11],
    rare: { from: 495 },
    plant: () =>
      onSessionWrite((userId, key, guard, change) => {
        const { lease: _, ...set } = change.set ?? {};
        const isReady = set.sandbox?.state === "ready" && set.epoch === undefined;
        return [userId, key, guard, isReady ? { ...change, set } : change];
      }),
  },
  // That a retry forgets an earlier launch (`maybeLaunched`) takes too rare an order for any seed to be kept here; the
  // tests in `packages/core/task/given-up.test.ts` make that order.
  { name: "the timer is armed after the launch", breaks: [4], plant: armAfterLaunch },
  { name: "no timer is armed and nothing is due", breaks: [4], plant: neverDue },
  { name: "the push is granted before the write", breaks: [2, 6], plant: grantBeforeWrite },
  {
    name: "the push is granted to a turn that is ending",
    breaks: [2, 6],
    rare: { orders: theRace },
    plant: () =>
      onTaskWrite((id, guard, change) =>
        change.set?.state?.status === "finalizing"
          ? [id, { ...guard, status: ["running", "stopping", "stopped", "timed_out"] }, change]
          : [id, guard, change],
      ),
  },
  { name: "the reaper trusts the index", breaks: [3, 4, 5, 6, 11], plant: trustIndex },
  {
    name: "the reaper deletes every sandbox it lists",
    breaks: [4, 6, 11],
    plant: () => ({
      ports: (deps, role) =>
        role !== "reaper" ? deps : withStore(deps, { getSession: async () => undefined }),
    }),
  },
  {
    name: "a release checks nothing",
    breaks: [6, 11],
    plant: () => ({
      verbs: {
        async release(deps, { userId, sessionKey }) {
          const session = await deps.store.getSession(userId, sessionKey);
          if (session?.sandbox) await deps.provider.remove(session.sandbox.name);
          return true;
        },
      },
    }),
  },
  {
    name: "a taker does not check the cap after writing its slot",
    breaks: [1],
    rare: { from: 135 },
    plant: () => ({
      ports: (deps) => {
        let hasPut = false;
        return withStore(deps, {
          async putSlot(slot) {
            await deps.store.putSlot(slot);
            hasPut = true;
          },
          async listSlots() {
            const slots = await deps.store.listSlots();
            if (!hasPut) return slots;
            hasPut = false;
            return [];
          },
        });
      },
    }),
  },
  {
    name: "a warm sandbox is claimed without a condition",
    breaks: [4, 9],
    plant: () => {
      const listed = new Map<string, UnclaimedWarmSandbox>();
      return {
        table: (store) => ({
          ...store,
          async changeWarm(name, from, sandbox) {
            const known = await store.getWarm(name);
            return await store.changeWarm(name, known?.state ?? from, sandbox);
          },
          listWarm: async () => {
            for (const warm of await store.listWarm()) listed.set(warm.name, warm);
            return [...listed.values()];
          },
        }),
      };
    },
  },
  {
    name: "secrets are stored in clear",
    breaks: [10],
    plant: () => ({
      ports: (deps) => ({
        ...deps,
        sealer: { ...deps.sealer, seal: (plain) => plain, open: (text) => text },
      }),
    }),
  },
  {
    name: "a session is looked up by its key alone",
    breaks: [1, 5, 9],
    plant: () => ({
      ports: (deps) =>
        withStore(deps, {
          getSession: (_user, key) => deps.store.getSession("everyone", key),
          changeSession: (_user, key, guard, change) =>
            deps.store.changeSession("everyone", key, guard, change),
        }),
    }),
  },
];
