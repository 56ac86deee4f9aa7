import type {
  Clock,
  FlagReader,
  Ids,
  Metrics,
  Origin,
  Provider,
  RoomDeps,
  SandboxRef,
  Session,
  SessionName,
  Sessions,
  Store,
} from "@concierge/core";

/** A session with its sandbox, as it was when it was given out. */
export interface SandboxSession extends SessionName {
  sandbox: SandboxRef;
  epoch: number;
  /** How the sandbox was come by this time. */
  origin: Origin;
  startedAt: number;
  expiresAt: number;
}

/** A store and a provider are enough; the rest has defaults. */
export interface SandboxSessionManagerConfig extends Partial<RoomDeps["config"]> {
  store: Store;
  provider: Provider;
  clock?: Clock;
  ids?: Pick<Ids, "claim">;
  flags?: FlagReader;
  metrics?: Metrics;
  /** How much time there is for what is asked; without a limit where nothing is said. */
  timeLeftMs?: () => number;
  /** Rooms outlive the process that gave them out: `shutdown` leaves them to the reaper. */
  keepOnShutdown?: boolean;
}

export interface SessionOptions {
  /** Until when it must last; as long as idle ones are kept, where nothing is said. */
  until?: number;
  onProgress?: (step: string, detail: string) => Promise<void>;
}

/** Keeps each guest's room, remembers the key, and books another without the guest noticing when the old one is gone. */
export interface ISandboxSessionManager extends Sessions {
  /** The session's sandbox, ready: the same where it still is, another where it is not. Many at once get one. */
  getOrCreateSession(name: SessionName, options?: SessionOptions): Promise<SandboxSession>;
  /** Whether its sandbox can be used as it is. */
  isSessionValid(name: SessionName): Promise<boolean>;
  /** Pushes its expiry out, never past the plan's end, and keeps it for so long though nobody uses it. */
  extendSession(name: SessionName, durationMs?: number): Promise<Session>;
  shutdown(): Promise<void>;
}
