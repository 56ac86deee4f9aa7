import type { Activity } from "@concierge/protocol";
import type { Page } from "./ports.ts";

/** A sandbox in one provider session. A resumed sandbox has the same name and another `sessionId`. */
export interface SandboxRef {
  name: string;
  sessionId: string;
}

export interface LiveSandbox extends SandboxRef {
  startedAt: number;
  expiresAt: number;
}

/** What a probe found. If the provider does not answer, the probe throws a `ProviderError` instead. */
export type Probe = { health: "healthy"; sandbox: LiveSandbox } | { health: "resumable" | "gone" };

export interface Execution {
  cmd: string;
  args: readonly string[];
  cwd?: string | undefined;
  env?: Readonly<Record<string, string>> | undefined;
  timeoutMs: number;
  /** Per stream; the rest is cut. */
  maxBytes: number;
}

export interface ExecutionResult {
  /** Null if the command was killed because its time was over. */
  exitCode: number | null;
  stdout: string;
  stderr: string;
  /** Some output was cut. */
  truncated: boolean;
}

export interface ListedSandbox {
  name: string;
  /** False for a stopped sandbox that can be resumed. */
  isRunning: boolean;
  createdAt: number;
  tags: Readonly<Record<string, string>>;
}

export interface SandboxFile {
  path: string;
  content: string | Uint8Array;
}

/** What the runner last wrote about itself. */
export interface RunnerState {
  /** When the runner wrote this. Older runners do not say. */
  at: number | undefined;
  lastOutputAt: number | undefined;
  /** The runner has output that it could not deliver. */
  undelivered: boolean;
  activity: Activity;
}

export interface RunnerReport {
  /** The state of the command that launched the runner. `unknown`: the provider does not know the command. */
  launch: "running" | "exited" | "unknown";
  /** Undefined if the runner has not written its state yet, or if the state cannot be read. */
  state: RunnerState | undefined;
}

export interface NetworkPolicy {
  /**
   * Hosts that the sandbox may reach, with their port if it is not the standard one. A provider that knows no ports
   * allows them all. `*` allows all hosts.
   */
  allow: readonly string[];
  inject: readonly HeaderRule[];
}

/** Sets a header on requests to a host. The sandbox never sees its value. */
export interface HeaderRule {
  /** As in `allow`. */
  host: string;
  /** All that is given must match. */
  match: {
    path: { exact: string } | { startsWith: string };
    method?: string;
    query?: { name: string; value: string };
    header?: { name: string; value: string };
  };
  set: { name: string; value: string };
}

export type SweepResult = "clean" | "alive" | "superseded";

export interface SweepOptions {
  commandId?: string | undefined;
  evenIfSuperseded?: boolean;
}

/** A sandbox provider. Only `resume` brings a stopped sandbox back. Every failure is a `ProviderError`. */
export interface Provider {
  /**
   * Creates a persistent sandbox, empty or from a snapshot. If a sandbox of this name already runs with these tags, it
   * is returned: the SDK repeats a create whose response was lost. Any other use of the name is `refused`. `gone` means
   * that the snapshot is missing.
   */
  create(options: {
    name: string;
    tags: Record<string, string>;
    timeoutMs: number;
    snapshotId?: string | undefined;
    /** In force before anything runs in the sandbox. */
    policy?: NetworkPolicy | undefined;
  }): Promise<LiveSandbox>;
  probe(name: string): Promise<Probe>;
  /** Brings back a stopped sandbox in a new provider session. */
  resume(name: string): Promise<LiveSandbox>;
  /** Stops the sandbox and takes a snapshot of its files that lasts for `keepMs`. */
  snapshot(sandbox: SandboxRef, keepMs: number): Promise<string>;
  /** Succeeds if the snapshot does not exist. */
  deleteSnapshot(id: string): Promise<void>;
  /**
   * Runs a command until it exits, or kills it when its time is over. A failure says whether the command had started.
   * If the kill fails, so does the call: the command may still run.
   */
  exec(sandbox: SandboxRef, execution: Execution): Promise<ExecutionResult>;
  /** One page of the sandboxes with this stage tag. */
  list(tags: { stage: string }, cursor?: string): Promise<Page<ListedSandbox>>;
  writeFiles(sandbox: SandboxRef, files: readonly SandboxFile[]): Promise<void>;
  /**
   * Replaces the sandbox's policy: limits it to these hosts and injects headers that it never sees. In force for every
   * request that starts after the call returns. Returns `open` if the provider can do neither: secrets then have to
   * enter the sandbox.
   */
  guardNetwork(sandbox: SandboxRef, policy: NetworkPolicy): Promise<"guarded" | "open">;
  /**
   * Starts the runner in a turn's directory without waiting for it, and returns the command id. Only the first launch
   * of a turn starts it, and none after a sweep barred it.
   */
  launch(sandbox: SandboxRef, runDir: string, env: Record<string, string>): Promise<string>;
  /**
   * Bars the turn's launch if it has not happened, and kills everything that started with it or later. `clean`: two
   * looks in a row found nothing. `superseded`: another turn's files are there, and nothing was touched, because a late
   * sweep must not kill the next turn. A launch whose command is unknown can only be barred, and is `alive` if it had
   * happened. Throws `transient` if no sweep could report.
   */
  sweep(sandbox: SandboxRef, runDir: string, options?: SweepOptions): Promise<SweepResult>;
  /** Asks the provider about the launch and reads the runner's state, without any callback. */
  ask(sandbox: SandboxRef, runDir: string, commandId: string | undefined): Promise<RunnerReport>;
  extend(sandbox: SandboxRef, byMs: number): Promise<void>;
  /** Stops and deletes the sandbox and, unless told otherwise, its snapshots. Succeeds if it does not exist. */
  remove(name: string, options?: { keepSnapshots: boolean }): Promise<void>;
}
