import { setTimeout as delay } from "node:timers/promises";
import {
  AppError,
  createFlagReader,
  createId,
  type Execution,
  type ExecutionResult,
  type Health,
  ProviderError,
  parseConfig,
  type Room,
  type RoomDeps,
  type RoomRequest,
  type Session,
  type SessionName,
} from "@concierge/core";
import { addUsage, mustProbe, noSuchSession, release, whoHolds } from "@concierge/core/verbs";
import { refreshEnvironment } from "./environment.ts";
import { extend } from "./extend.ts";
import { healthOf } from "./health.ts";
import { giveRoom } from "./room.ts";
import type {
  ISandboxSessionManager,
  SandboxSession,
  SandboxSessionManagerConfig,
  SessionOptions,
} from "./types.ts";
import { keepInUse, useAsKnown } from "./use.ts";

/** Every decision is made by the record in the store, so that any number of these, in any process, are one. */
export class SandboxSessionManager implements ISandboxSessionManager {
  readonly #deps: RoomDeps;
  readonly #keepOnShutdown: boolean;
  readonly #given = new Map<string, SessionName>();
  #isShut = false;

  constructor(config: SandboxSessionManagerConfig) {
    this.#deps = depsFrom(config);
    this.#keepOnShutdown = config.keepOnShutdown ?? false;
  }

  async getRoom(request: RoomRequest): Promise<Room | "unwanted" | "not the holder"> {
    const { taskId, turn } = request.holder;
    return await giveRoom(this.#open(), { ...request, by: `${taskId}/${turn}` });
  }

  async getOrCreateSession(name: SessionName, options: SessionOptions = {}): Promise<SandboxSession> {
    const room = await this.#give(name, options);
    await countMade(this.#deps, name.userId, room);
    const { sandbox, epoch, origin } = room;
    const { startedAt, expiresAt, ...ref } = sandbox;
    return {
      ...name,
      sandbox: { name: ref.name, sessionId: ref.sessionId },
      epoch,
      origin,
      startedAt,
      expiresAt,
    };
  }

  async #give(name: SessionName, options: SessionOptions, seen?: Session): Promise<Room> {
    const deps = this.#open();
    const { until = deps.clock.now(), onProgress: progress = silently } = options;
    const room = await giveRoom(deps, {
      ...name,
      until,
      by: deps.ids.claim(),
      holder: undefined,
      isWanted: async () => !this.#isShut,
      progress,
      seen,
    });
    if (typeof room === "string") throw shutDown();
    if (this.#isShut && !this.#keepOnShutdown) {
      await this.invalidateSession(name);
      throw shutDown();
    }
    this.#note(name);
    return room;
  }

  #note(name: SessionName): void {
    if (!this.#keepOnShutdown) this.#given.set(`${name.userId}\0${name.sessionKey}`, name);
  }

  async isSessionValid(name: SessionName): Promise<boolean> {
    return (await this.checkHealth(name)) === "healthy";
  }

  async checkHealth({ userId, sessionKey }: SessionName): Promise<Health> {
    const sandbox = (await this.#deps.store.getSession(userId, sessionKey))?.sandbox;
    return sandbox?.state === "ready" ? await healthOf(this.#deps, sandbox.name) : "gone";
  }

  async extendSession(name: SessionName, durationMs = this.#deps.config.sessionIdleMs): Promise<Session> {
    return await extend(this.#open(), name, durationMs);
  }

  async invalidateSession({ userId, sessionKey }: SessionName): Promise<boolean> {
    const { store, clock } = this.#deps;
    for (;;) {
      const session = await store.getSession(userId, sessionKey);
      if (!session?.sandbox) return true;
      const { held } = await whoHolds(store, session, clock.now());
      if (held) return false;
      await release(this.#deps, { userId, sessionKey, epoch: session.epoch });
    }
  }

  async refreshEnvironment(name: SessionName): Promise<void> {
    await refreshEnvironment(this.#open(), name);
  }

  /**
   * The sandbox is not probed first: a command that cannot run there is refused before anything has run. Then the sandbox
   * is looked at as for a turn, and the command runs in the sandbox that the session has after that.
   */
  async exec(name: SessionName, execution: Execution, { mustExist = false } = {}): Promise<ExecutionResult> {
    const until = this.#deps.clock.now() + execution.timeoutMs;
    const { session, sandbox } = await useAsKnown(this.#open(), name, until);
    if (!session && mustExist) throw noSuchSession();
    if (sandbox) this.#note(name);
    const room = sandbox
      ? { sandbox, origin: "reused" as const, steps: {} }
      : await this.#give(name, { until }, session);
    const result =
      (await this.#run(room, name, execution)) ??
      (await this.#run(await this.#give(name, { until }), name, execution));
    if (!result) throw wentAway();
    return result;
  }

  /** Nothing where the sandbox was gone or stopped before anything had run. */
  async #run(
    room: Pick<Room, "sandbox" | "origin" | "steps">,
    name: SessionName,
    execution: Execution,
  ): Promise<ExecutionResult | undefined> {
    await using _ = keepInUse(this.#deps, name);
    try {
      const [result] = await Promise.all([
        this.#deps.provider.exec(room.sandbox, execution),
        countMade(this.#deps, name.userId, room),
      ]);
      return result;
    } catch (error) {
      if (!(error instanceof ProviderError && (error.kind === "gone" || error.kind === "stopped")))
        throw error;
      if (error.hasBegun) throw wentAway();
      if (error.kind === "stopped") await mustProbe(this.#deps, name, room);
      return undefined;
    }
  }

  /** Gives nothing out any more, and gives up the rooms it gave out that nobody has. */
  async shutdown(): Promise<void> {
    this.#isShut = true;
    if (this.#keepOnShutdown) return;
    await Promise.all([...this.#given.values()].map((name) => this.invalidateSession(name)));
    this.#given.clear();
  }

  #open(): RoomDeps {
    if (this.#isShut) throw shutDown();
    return this.#deps;
  }
}

/** A turn counts what it took to get its sandbox; what was made ahead of one is counted here. */
async function countMade(
  deps: RoomDeps,
  userId: string,
  { origin, steps }: Pick<Room, "origin" | "steps">,
): Promise<void> {
  if (origin === "reused" || origin === "resumed") return;
  const initMs = Object.values(steps).reduce((total, ms) => total + ms, 0);
  await addUsage(deps, userId, { creations: 1, initMs_prepared: initMs });
}

function wentAway(): AppError {
  return new AppError("session_not_ready", "The sandbox went away while the command ran.");
}

function shutDown(): Error {
  return new Error("The session manager was shut down.");
}

const silently = async (): Promise<void> => {};

function depsFrom(given: SandboxSessionManagerConfig): RoomDeps {
  const { store, provider, metrics = { count: () => {} }, keepOnShutdown: _, ...rest } = given;
  const clock = given.clock ?? {
    now: () => Date.now(),
    sleep: (ms, signal) => delay(ms, undefined, signal && { signal }).catch(() => {}),
  };
  const defaults = parseConfig({});
  const { ids = { claim: () => createId("claim", clock.now()) } } = given;
  const { flags = createFlagReader({ store, clock }, defaults.flags) } = given;
  const { timeLeftMs = () => Number.POSITIVE_INFINITY } = given;
  const { clock: _clock, ids: _ids, flags: _flags, timeLeftMs: _timeLeftMs, ...over } = rest;
  return { config: { ...defaults, ...over }, clock, ids, store, provider, flags, metrics, timeLeftMs };
}
