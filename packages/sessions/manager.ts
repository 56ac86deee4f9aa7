import { setTimeout as delay } from "node:timers/promises";
import {
  type AcquireDeps,
  createFlagReader,
  createId,
  type Execution,
  type ExecutionResult,
  type Health,
  parseConfig,
  type Session,
  type SessionName,
} from "@concierge/core";
import type { AcquiredSandbox } from "@concierge/core/session/acquire";
import { refreshEnvironment } from "@concierge/core/session/environment";
import { exec } from "@concierge/core/session/exec";
import { extendSession } from "@concierge/core/session/extend";
import {
  checkHealth,
  countPrepared,
  invalidateSession,
  type PrepareOptions,
  prepareSandbox,
} from "@concierge/core/session/prepare";
import type {
  ISandboxSessionManager,
  SandboxSession,
  SandboxSessionManagerConfig,
  SessionOptions,
} from "./types.ts";

/** The record in the store decides everything, so managers in any number of processes work as one. */
export class SandboxSessionManager implements ISandboxSessionManager {
  readonly #deps: AcquireDeps;
  readonly #keepOnShutdown: boolean;
  /** The sessions whose sandboxes `shutdown` gives up. */
  readonly #used = new Map<string, SessionName>();
  #isShutDown = false;

  constructor(config: SandboxSessionManagerConfig) {
    this.#deps = depsFrom(config);
    this.#keepOnShutdown = config.keepOnShutdown ?? false;
  }

  async getOrCreateSession(name: SessionName, options: SessionOptions = {}): Promise<SandboxSession> {
    const { until, onProgress: progress } = options;
    const found = await this.#prepare(name, {
      ...(until !== undefined && { until }),
      ...(progress && { progress }),
    });
    await countPrepared(this.#deps, name.userId, found);
    const { sandbox, epoch, origin } = found;
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

  async #prepare(name: SessionName, options: PrepareOptions): Promise<AcquiredSandbox> {
    const isWanted = async () => !this.#isShutDown;
    const found = await prepareSandbox(this.#open(), name, { ...options, isWanted }).catch((error) => {
      throw this.#isShutDown ? shutDown() : error;
    });
    if (this.#isShutDown && !this.#keepOnShutdown) {
      await this.invalidateSession(name);
      throw shutDown();
    }
    this.#remember(name);
    return found;
  }

  #remember(name: SessionName): void {
    if (!this.#keepOnShutdown) this.#used.set(`${name.userId}\0${name.sessionKey}`, name);
  }

  async isSessionValid(name: SessionName): Promise<boolean> {
    return (await this.checkHealth(name)) === "healthy";
  }

  async checkHealth(name: SessionName): Promise<Health> {
    return await checkHealth(this.#deps, name);
  }

  async extendSession(name: SessionName, durationMs = this.#deps.config.sessionIdleMs): Promise<Session> {
    return await extendSession(this.#open(), name, durationMs);
  }

  async invalidateSession(name: SessionName): Promise<boolean> {
    return await invalidateSession(this.#deps, name);
  }

  async refreshEnvironment(name: SessionName): Promise<void> {
    await refreshEnvironment(this.#open(), name);
  }

  async exec(name: SessionName, execution: Execution, { mustExist = false } = {}): Promise<ExecutionResult> {
    const prepare = (options: PrepareOptions) => this.#prepare(name, options);
    const deps = this.#open();
    this.#remember(name);
    return await exec(deps, name, execution, { mustExist, prepare });
  }

  async shutdown(): Promise<void> {
    this.#isShutDown = true;
    if (this.#keepOnShutdown) return;
    await Promise.all([...this.#used.values()].map((name) => this.invalidateSession(name)));
    this.#used.clear();
  }

  #open(): AcquireDeps {
    if (this.#isShutDown) throw shutDown();
    return this.#deps;
  }
}

function shutDown(): Error {
  return new Error("The session manager was shut down.");
}

/** What core needs, from what a library user gives. */
export function depsFrom(given: SandboxSessionManagerConfig): AcquireDeps {
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
