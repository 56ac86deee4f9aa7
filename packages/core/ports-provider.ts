import type { Page } from "./ports.ts";

/** One provider session of a sandbox: a name alone would follow it through a resume. */
export interface SandboxRef {
  name: string;
  sessionId: string;
}

export interface LiveSandbox extends SandboxRef {
  startedAt: number;
  expiresAt: number;
}

/** What a look at a sandbox found. That it could not be looked at is no finding, but a `ProviderError`. */
export type Probe = { health: "healthy"; sandbox: LiveSandbox } | { health: "resumable" | "gone" };

export interface Execution {
  cmd: string;
  args: readonly string[];
  cwd?: string | undefined;
  env?: Readonly<Record<string, string>> | undefined;
  timeoutMs: number;
  /** Of each stream; what is beyond is cut. */
  maxBytes: number;
}

export interface ExecutionResult {
  /** Null if the command was killed because its time was over. */
  exitCode: number | null;
  stdout: string;
  stderr: string;
  /** Something was cut off. */
  truncated: boolean;
}

export interface ListedSandbox {
  name: string;
  /** False for one whose time is over, which is kept to be resumed. */
  isRunning: boolean;
  createdAt: number;
  tags: Readonly<Record<string, string>>;
}

export interface SandboxFile {
  path: string;
  content: string | Uint8Array;
}

/** What a turn's runner last wrote about itself. */
export interface RunnerState {
  /** When the runner wrote this. Older runners do not say. */
  at: number | undefined;
  lastOutputAt: number | undefined;
  /** It has output that it could not deliver. */
  undelivered: boolean;
  activity: "none" | "model" | "tool";
}

export interface RunnerReport {
  /** What the provider says about the command that launched the runner. `unknown`: it does not know the command. */
  launch: "running" | "exited" | "unknown";
  /** Nothing if the runner has not written its state yet, or if the state cannot be read. */
  state: RunnerState | undefined;
}

export interface NetworkPolicy {
  allow: readonly string[];
  /** Headers by host. */
  inject: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

export type SweepResult = "clean" | "alive" | "superseded";

export interface SweepOptions {
  commandId?: string | undefined;
  evenIfSuperseded?: boolean;
}

/** A sandbox provider. Nothing here but `resume` brings a stopped sandbox back. Failures are `ProviderError`s. */
export interface Provider {
  /**
   * A sandbox that keeps its files when its time is over, empty or with a snapshot's files. If a sandbox of this name
   * already runs with these tags, that one is returned: the SDK repeats a create whose answer was lost. Any other use
   * of the name is `refused`. `gone` means the snapshot.
   */
  create(options: {
    name: string;
    tags: Record<string, string>;
    timeoutMs: number;
    snapshotId?: string | undefined;
  }): Promise<LiveSandbox>;
  probe(name: string): Promise<Probe>;
  /** Brings back a sandbox whose time was over, in a new provider session. */
  resume(name: string): Promise<LiveSandbox>;
  /** Stops the sandbox and keeps its files, for so long, for others to be made from. */
  snapshot(sandbox: SandboxRef, keepMs: number): Promise<string>;
  /** Succeeds if there is no such snapshot. */
  deleteSnapshot(id: string): Promise<void>;
  /**
   * Runs a command until it ends, or kills it when its time is over. A failure says whether the command had started.
   * If the kill itself fails, so does the call: the command may still run.
   */
  exec(sandbox: SandboxRef, execution: Execution): Promise<ExecutionResult>;
  /** The sandboxes that carry the stage's tag, a page at a time. */
  list(tags: { stage: string }, cursor?: string): Promise<Page<ListedSandbox>>;
  writeFiles(sandbox: SandboxRef, files: readonly SandboxFile[]): Promise<void>;
  /**
   * Lets the sandbox reach these hosts and no others, and puts headers into its requests that it never sees itself.
   * `open` where the provider can do neither: then a secret has to go in.
   */
  guardNetwork(sandbox: SandboxRef, policy: NetworkPolicy): Promise<"guarded" | "open">;
  /**
   * Starts the runner in a turn's directory and does not wait for it; gives the command's id. Of all launches of a
   * turn the first starts it, unless a sweep has barred them.
   */
  launch(sandbox: SandboxRef, runDir: string, env: Record<string, string>): Promise<string>;
  /**
   * Bars the turn's launch, if it has not happened, and kills everything that began with it or after: `clean` when,
   * twice in a row, nothing of it was left. Where another turn's files have been put there since, nothing is touched:
   * a sweep that comes late must not kill the next turn. A launch whose command is not known may only be barred, and
   * is `alive` where it had happened. If no sweep got to say what it found, this throws `transient`.
   */
  sweep(sandbox: SandboxRef, runDir: string, options?: SweepOptions): Promise<SweepResult>;
  /** Asks the provider about the launch, and reads what the turn's runner wrote, without any callback. */
  ask(sandbox: SandboxRef, runDir: string, commandId: string | undefined): Promise<RunnerReport>;
  extend(sandbox: SandboxRef, byMs: number): Promise<void>;
  /**
   * Stops the sandbox and deletes it with all it holds, snapshots of it too unless they are to be used; one that does
   * not exist is as good as deleted.
   */
  remove(name: string, options?: { keepSnapshots: boolean }): Promise<void>;
}
