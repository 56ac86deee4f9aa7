import type {
  AcquireDeps,
  Clock,
  Execution,
  ExecutionResult,
  FlagReader,
  Health,
  Ids,
  Metrics,
  Origin,
  Provider,
  SandboxRef,
  Session,
  SessionName,
  Store,
} from "@concierge/core";

/** A session with its sandbox, as of the moment it was returned. */
export interface SandboxSession extends SessionName {
  sandbox: SandboxRef;
  epoch: number;
  /** How the sandbox was acquired this time. */
  origin: Origin;
  startedAt: number;
  expiresAt: number;
}

/** A store and a provider are required; everything else has defaults. */
export interface SandboxSessionManagerConfig extends Partial<AcquireDeps["config"]> {
  store: Store;
  provider: Provider;
  clock?: Clock;
  ids?: Pick<Ids, "claim">;
  flags?: FlagReader;
  metrics?: Metrics;
  /** The time left for a request; unlimited by default. */
  timeLeftMs?: () => number;
  /** Sandboxes outlive this process: `shutdown` leaves them to the reaper. */
  keepOnShutdown?: boolean;
}

export interface SessionOptions {
  /** How long the sandbox must last; by default as long as idle ones are kept. */
  until?: number;
  onProgress?: (step: string, detail: string) => Promise<void>;
}

/** Gives each session a sandbox that stays the same across requests, and replaces it when it is lost. */
export interface ISandboxSessionManager {
  /** The session's sandbox, ready: the same one if it still exists, otherwise another. Concurrent callers get one. */
  getOrCreateSession(name: SessionName, options?: SessionOptions): Promise<SandboxSession>;
  /** Whether the sandbox can be used as it is. */
  isSessionValid(name: SessionName): Promise<boolean>;
  /** `unknown` if the provider does not answer. Never throws for that. */
  checkHealth(name: SessionName): Promise<Health>;
  /** Extends the sandbox's life, at most to the plan's maximum, and keeps it that long even if it is idle. */
  extendSession(name: SessionName, durationMs?: number): Promise<Session>;
  /** Gives up the sandbox. False if a turn holds the session. */
  invalidateSession(name: SessionName): Promise<boolean>;
  /** Records what is installed in the sandbox, if that is unknown or has changed. */
  refreshEnvironment(name: SessionName): Promise<void>;
  /** Runs a command in the sandbox. Creates sandbox and session if needed, unless the session `mustExist`. */
  exec(name: SessionName, execution: Execution, options?: { mustExist: boolean }): Promise<ExecutionResult>;
  /** Refuses further requests, and gives up the sandboxes it handed out that no turn holds. */
  shutdown(): Promise<void>;
}
