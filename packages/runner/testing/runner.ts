import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { bundleAsset } from "@concierge/bundler";
import { type LaunchConfig, protocolVersion, runFiles, type StateFile, variables } from "@concierge/protocol";
import { alive } from "../../../test/testing/processes.ts";
import type { FakeConcierge } from "./concierge.ts";

export interface Bundle extends Disposable {
  path: string;
  imports: string[];
}

/** Builds the runner as it is shipped. */
export async function bundleRunner(): Promise<Bundle> {
  const directory = mkdtempSync(join(tmpdir(), "concierge-runner-bundle-"));
  const path = join(directory, "runner.mjs");
  const { outputs } = await bundleAsset("packages/runner/main.ts", path);
  const imports = Object.values(outputs).flatMap((output) => output.imports.map((entry) => entry.path));
  return { path, imports, [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }) };
}

/** Sandboxes may have Node 20. Undefined if this machine has none. */
const node20 = (process.env.PATH ?? "")
  .split(delimiter)
  .map((directory) => join(directory, "node"))
  .find((path) => existsSync(path) && /^v20\./.test(String(spawnSync(path, ["--version"]).stdout)));

export const nodeVersions: readonly [string, string][] = [
  ["the current Node", process.execPath],
  ...(node20 === undefined ? [] : [["Node 20", node20] as [string, string]]),
];

export interface RunOptions extends Partial<LaunchConfig> {
  node?: string;
  /** Added to the runner's own environment. */
  variables?: Record<string, string>;
}

/** A turn's directories. Each `launch` runs the runner as a process. */
export class Turn implements AsyncDisposable {
  readonly root = mkdtempSync(join(tmpdir(), "concierge-runner-"));
  readonly runDir = join(this.root, "run");
  readonly workDir = join(this.root, "work");
  readonly config: LaunchConfig;
  private readonly node: string;
  readonly variables: Record<string, string>;
  private readonly launched: ChildProcess[] = [];
  private readonly bundle: string;

  constructor(
    bundle: Bundle,
    concierge: FakeConcierge,
    script: string,
    { node, variables, ...overrides }: RunOptions = {},
  ) {
    this.node = node ?? process.execPath;
    this.variables = variables ?? {};
    this.bundle = bundle.path;
    mkdirSync(this.runDir);
    mkdirSync(this.workDir);
    writeFileSync(join(this.runDir, runFiles.prompt), script);
    this.config = {
      protocol: protocolVersion,
      taskId: `task_${randomUUID()}`,
      turn: 1,
      url: concierge.url,
      token: `token-${randomUUID()}`,
      agent: "shell",
      runDir: this.runDir,
      cwd: this.workDir,
      maxDurationMs: 60_000,
      inactivityMs: 30_000,
      maxOutputBytes: 64 * 1024 * 1024,
      env: {},
      ...overrides,
    };
  }

  launch(): Launch {
    const child = spawn(this.node, [this.bundle], {
      env: {
        PATH: process.env.PATH,
        // Each turn is alone in its sandbox, unless the test says otherwise.
        [variables.processMark]: this.root,
        ...this.variables,
        [variables.launchConfig]: JSON.stringify(this.config),
      },
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.launched.push(child);
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    const exited = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
    return { pid: child.pid ?? 0, exited, signal: (name) => child.kill(name), stderr: () => stderr };
  }

  /** A PATH directory with the tools a turn needs, without npm. */
  toolsWithoutNpm(): string {
    const directory = join(this.root, "tools");
    mkdirSync(directory);
    for (const name of ["bash", "cat", "mkdir", "mkfifo", "sleep"])
      symlinkSync(`/usr/bin/${name}`, join(directory, name));
    return directory;
  }

  /** Releases a script that waits with `until [ -e <name> ]`. */
  touch(name: string): void {
    writeFileSync(join(this.workDir, name), "");
  }

  read(name: string): string {
    try {
      return readFileSync(join(this.workDir, name), "utf8");
    } catch {
      return "";
    }
  }

  state(): StateFile | undefined {
    try {
      return JSON.parse(readFileSync(join(this.runDir, runFiles.state), "utf8")) as StateFile;
    } catch {
      return undefined;
    }
  }

  /** The living processes of the turn, even if they left its process group. */
  processes(): number[] {
    return alive(`${variables.taskId}=${this.config.taskId} `, "environ").map((line) =>
      Number.parseInt(line, 10),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.launched) child.kill("SIGKILL");
    await until("the turn's processes are gone", () => {
      for (const pid of this.processes()) tryKill(pid);
      return this.processes().length === 0;
    });
    rmSync(this.root, { recursive: true, force: true });
  }
}

export interface Launch {
  pid: number;
  exited: Promise<number | null>;
  signal(name: NodeJS.Signals): boolean;
  stderr(): string;
}

export function allPids(): number[] {
  return readdirSync("/proc").map(Number).filter(Number.isInteger);
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has already ended.
  }
}

export async function until(what: string, holds: () => boolean, withinMs = 20_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`timed out after ${withinMs} ms waiting until ${what}`);
    await sleep(10);
  }
}

/** A process's peak memory, as the kernel recorded it. */
export function peakMemoryBytes(pid: number): number {
  const line = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1] ?? Number.NaN) * 1024;
}
