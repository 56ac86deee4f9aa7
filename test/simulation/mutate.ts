import type { Store, Task } from "@concierge/core";
import { overridden } from "./observe.ts";
import type { Mutant, Ports } from "./world.ts";

type ChangeTask = Parameters<Store["changeTask"]>;
type ChangeSession = Parameters<Store["changeSession"]>;
type Push = Parameters<NonNullable<Mutant["verbs"]>["grantPush"] & object>[2];

export function withStore(deps: Ports, store: Partial<Store>): Ports {
  return { ...deps, store: overridden(deps.store, store) };
}

export function withProvider(deps: Ports, provider: Partial<Ports["provider"]>): Ports {
  return { ...deps, provider: overridden(deps.provider, provider) };
}

export function onTaskWrite(rewrite: (...call: ChangeTask) => ChangeTask): Mutant {
  return {
    ports: (deps) => withStore(deps, { changeTask: (...call) => deps.store.changeTask(...rewrite(...call)) }),
  };
}

export function onSessionWrite(rewrite: (...call: ChangeSession) => ChangeSession): Mutant {
  return {
    ports: (deps) =>
      withStore(deps, { changeSession: (...call) => deps.store.changeSession(...rewrite(...call)) }),
  };
}

/** The timers are armed after the launch. */
export function armAfterLaunch(): Mutant {
  return {
    ports(deps, role) {
      if (role !== "worker") return deps;
      const waiting: (() => Promise<void>)[] = [];
      const launching = withProvider(deps, {
        async launch(...call) {
          const command = await deps.provider.launch(...call);
          for (const arm of waiting.splice(0)) await arm();
          return command;
        },
      });
      return {
        ...launching,
        timers: {
          async arm(timer, delayMs) {
            if (timer.kind === "inactivity") waiting.push(() => deps.timers.arm(timer, delayMs));
            else await deps.timers.arm(timer, delayMs);
          },
        },
      };
    },
  };
}

/** The intent is written after the create. */
export function recordAfterCreate(): Mutant {
  return {
    ports(deps) {
      let intent: ChangeSession | undefined;
      const creating = withProvider(deps, {
        async create(options) {
          const live = await deps.provider.create(options);
          if (intent) await deps.store.changeSession(...intent);
          return live;
        },
      });
      return withStore(creating, {
        async changeSession(...call) {
          const [userId, key, , { set }] = call;
          if (set?.sandbox?.state !== "creating") return await deps.store.changeSession(...call);
          intent = call;
          const session = await deps.store.getSession(userId, key);
          return session ? { won: true, item: { ...session, ...set } } : { won: false, item: undefined };
        },
      });
    },
  };
}

/** A worker does not read its task again after the claim. */
export function trustClaim(): Mutant {
  return {
    ports(deps, role) {
      if (role !== "worker") return deps;
      let claimed: Task | undefined;
      return withStore(deps, {
        getTask: async (id) => claimed ?? (await deps.store.getTask(id)),
        async changeTask(id, guard, change) {
          const outcome = await deps.store.changeTask(id, guard, change);
          if (outcome.won && !claimed) claimed = outcome.item;
          return outcome;
        },
      });
    },
  };
}

/** The reaper uses a task as the index first returned it. */
export function trustIndex(): Mutant {
  const copies = new Map<string, Task>();
  return {
    ports: (deps, role) =>
      role !== "reaper"
        ? deps
        : withStore(deps, {
            async getTask(id) {
              const task = copies.get(id) ?? (await deps.store.getTask(id));
              if (task) copies.set(id, task);
              return task;
            },
          }),
  };
}

/** Nothing wakes anyone: no timer, nothing due. */
export function neverDue(): Mutant {
  return {
    ports(deps, role) {
      if (role !== "worker") return deps;
      const undue = withStore(deps, {
        changeTask(id, guard, change) {
          const { dueAt: _, ...set } = change.set ?? {};
          return deps.store.changeTask(id, guard, { ...change, set, remove: ["dueAt"] });
        },
      });
      return { ...undue, timers: { arm: async () => {} } };
    },
  };
}

/** Responds first, writes afterwards. */
export function grantBeforeWrite(): Mutant {
  return {
    verbs: {
      async grantPush(deps, { taskId, turn }, push) {
        const task = await deps.store.getTask(taskId);
        if (task?.turn !== turn || task.state.status !== "running") return { action: "stop" };
        void writeGrant(deps.store, deps.clock.now(), task, push).catch(() => {});
        return { action: "go", credential: null };
      },
    },
  };
}

async function writeGrant(store: Store, now: number, task: Task, push: Push): Promise<void> {
  await store.changeTask(
    task.id,
    { turn: task.turn, status: ["running"] },
    {
      set: { state: { status: "finalizing", push, finalizeBy: now + 60_000 }, dueAt: now + 60_000 },
      phase: { turn: task.turn, status: "finalizing", at: now, by: "runner" },
    },
  );
}
