import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  type Activity,
  type AgentReport,
  type AgentUsage,
  costMaxUsd,
  type EndReason,
  runFiles,
  type Stream,
} from "@concierge/protocol";
import { maskText } from "@concierge/protocol/mask";
import type { AgentAdapter, AgentReader, AgentRun } from "../agents/adapter.ts";
import { directoryOf, findProgram, type InstallFailure, installAgent } from "../agents/install.ts";
import { findAgent } from "../agents/registry.ts";
import { stripAnsi } from "../output/agent-event.ts";
import { createLines } from "../output/lines.ts";
import type { Output } from "../output/output.ts";
import { type AgentProcess, startAgent } from "../process/agent-process.ts";
import { uptimeMs } from "../process/clock.ts";
import { agentEnvironment, homeOf, turnEnvironment, withPath } from "../process/environment.ts";
import { failureLogMaxLength, messageOf } from "../process/errors.ts";
import type { Pipes } from "../process/pipes.ts";
import { killTurn } from "../process/processes.ts";
import { secretsOf, type TurnConfig } from "./config.ts";
import { decideLimit } from "./limits.ts";

/** Below the 32 bits of milliseconds that a timer takes: a limit may be longer. */
const checkMaxMs = 60_000;

/** How many lines are reported of a failed installation's output. */
const installLogLines = 8;

/** How the agent's part of the turn went. */
export interface Ending {
  reason: EndReason;
  exitCode: number | null;
  signal: string | null;
  agentMs?: number;
  detail?: string;
}

export interface Supervisor {
  /** Runs the agent until it exits or reaches a limit. Its output is complete then. */
  run(): Promise<Ending>;
  /** Kills the turn's processes and prevents the agent's start. False if a process cannot be killed. */
  kill(): Promise<boolean>;
  /** Called when Concierge accepted a batch. Resumes reading if there is room again. */
  onDelivered(): void;
  agentPid(): number | null;
  activity(): Activity;
  report(): AgentReport;
}

export interface SupervisorOptions {
  config: TurnConfig;
  pipes: Promise<Pipes>;
  output: Output;
  onStarted(): void;
  /** The agent was started or has written output. */
  onChange(): void;
}

export function createSupervisor({
  config,
  pipes,
  output,
  onStarted,
  onChange,
}: SupervisorOptions): Supervisor {
  const { taskId, turn, timings } = config;
  const home = homeOf(config);
  const promptPath = join(config.runDir, runFiles.prompt);
  const lines = createLines();
  let reader: AgentReader | undefined;
  let agent: AgentProcess | undefined;
  let installerPid: number | undefined;
  let isInstalling = false;
  let hasFailed = false;
  let quietSinceMs = uptimeMs();
  let deliveredMs = uptimeMs();
  let paused = false;
  let killed = false;

  async function run(): Promise<Ending> {
    const adapter = findAgent(config.agent);
    if (adapter === undefined)
      return withoutExit("agent_missing", `there is no agent ${JSON.stringify(config.agent)}`);
    const failure = await ensureInstalled(adapter);
    if (failure !== undefined) return failure;
    try {
      agent = await start(adapter);
    } catch (error) {
      return withoutExit("agent_missing", messageOf(error));
    }
    quietSinceMs = uptimeMs();
    onStarted();
    onChange();
    const limit = await Promise.race([agent.exited.then(() => undefined), limitReached()]);
    if (limit !== undefined && !(await kill())) return withoutExit(limit, "a process outlived SIGKILL");
    const exit = await agent.exited;
    await agent.drained;
    readEvents(lines.end());
    if (hasFailed && exit.exitCode === 0) return { reason: limit ?? "exited", ...exit, exitCode: 1 };
    return { reason: limit ?? "exited", ...exit };
  }

  function start(adapter: AgentAdapter): Promise<AgentProcess> {
    const env = withPath(agentEnvironment(config), directoryOf(home, adapter));
    const { conversationId } = config;
    const isRoot = process.getuid?.() === 0;
    const prepared = adapter.start({ promptPath, conversationId, env, home, isRoot });
    writeFiles(prepared);
    reader = prepared.reader;
    return startAgent({
      file: prepared.file,
      args: prepared.args,
      stdinPath: prepared.stdin === "prompt" ? promptPath : undefined,
      cwd: config.cwd,
      pipes,
      env: { ...env, ...prepared.env },
      pipeGraceMs: timings.pipeGraceMs,
      onOutput,
      mayStart: () => !killed,
    });
  }

  /** Undefined if the agent's program is there, or was installed. One attempt. */
  async function ensureInstalled(adapter: AgentAdapter): Promise<Ending | undefined> {
    const { program, install } = adapter;
    const directory = directoryOf(home, adapter);
    const env = withPath(turnEnvironment(config), directory);
    const isThere = () => findProgram(program, env.PATH) !== undefined;
    if (isThere()) return undefined;
    if (!("version" in install) || directory === undefined) {
      const why = "impossible" in install ? `: ${install.impossible}` : "";
      return withoutExit("agent_missing", `${program} is not in this sandbox${why}`);
    }
    isInstalling = true;
    const installed = installAgent({
      installation: install,
      directory,
      env,
      onStarted(pid) {
        installerPid = pid;
        onChange();
      },
      onOutput: (bytes) => onOutput("stderr", bytes),
    });
    const limit = await Promise.race([installed.then(() => undefined), limitReached()]);
    if (limit !== undefined) {
      await kill();
      return withoutExit(limit, `${program} was being installed`);
    }
    const failure = await installed;
    isInstalling = false;
    installerPid = undefined;
    quietSinceMs = uptimeMs();
    if (failure !== undefined) return withoutExit("install_failed", describe(failure));
    return isThere() ? undefined : withoutExit("install_failed", `the installation has no ${program}`);
  }

  /** Masks before it cuts, because half a secret would not be recognized. */
  function describe({ reason, log }: InstallFailure): string {
    const text = maskText(secretsOf(config), stripAnsi(log)).slice(-failureLogMaxLength).trimEnd();
    return text === "" ? reason : `${reason}: ${text.split("\n").slice(-installLogLines).join("\n")}`;
  }

  function onOutput(stream: Stream, bytes: Buffer): void {
    quietSinceMs = uptimeMs();
    output.write(stream, bytes);
    if (stream === "stdout" && reader !== undefined) readEvents(lines.push(bytes));
    if (output.isFull()) {
      paused = true;
      agent?.pause();
    }
    onChange();
  }

  function readEvents(complete: readonly string[]): void {
    for (const line of complete) {
      try {
        for (const event of reader?.read(line) ?? []) {
          if (event.kind === "result") hasFailed = !event.ok;
          output.addEvent(event);
        }
      } catch {
        // A bug in an adapter must not end the turn. The line itself is in the output.
      }
    }
  }

  function onDelivered(): void {
    deliveredMs = uptimeMs();
    if (!paused || output.isFull()) return;
    paused = false;
    quietSinceMs = uptimeMs();
    agent?.resume();
  }

  function limitReached(): Promise<"deadline" | "inactivity"> {
    return new Promise((resolve) => {
      const check = (): void => {
        const nowMs = uptimeMs();
        const decision = decideLimit(
          { nowMs, quietSinceMs, deliveredMs, paused, activity: activity() },
          config,
        );
        if ("end" in decision) resolve(decision.end);
        // The runner may have been suspended while output arrived. Node reads pipes between a timer and its immediate,
        // so check in the immediate; otherwise that output would count as silence.
        else setTimeout(() => setImmediate(check), Math.min(decision.checkInMs, checkMaxMs));
      };
      check();
    });
  }

  function kill(): Promise<boolean> {
    killed = true;
    return killTurn({ taskId, turn, groupId: agent?.pid ?? installerPid }, timings.killGraceMs);
  }

  function activity(): Activity {
    return isInstalling ? "tool" : (reader?.activity() ?? "none");
  }

  function report(): AgentReport {
    const usage = boundedUsage(reader?.usage());
    const conversationId = reader?.conversationId();
    return { ...(usage && { usage }), ...(conversationId !== undefined && { conversationId }) };
  }

  return { run, kill, onDelivered, activity, report, agentPid: () => agent?.pid ?? null };
}

/** Keeps an agent's numbers within the protocol's limits, so that they never get a batch refused. */
function boundedUsage(usage: AgentUsage | undefined): AgentUsage | undefined {
  if (usage === undefined) return undefined;
  const count = (value: number) => Math.min(value, Number.MAX_SAFE_INTEGER);
  return {
    inputTokens: count(usage.inputTokens),
    outputTokens: count(usage.outputTokens),
    costUsd: Math.min(usage.costUsd, costMaxUsd),
  };
}

/** The end of a turn without an exit of the agent. */
export function withoutExit(reason: EndReason, detail: string): Ending {
  return { reason, exitCode: null, signal: null, detail };
}

function writeFiles({ files = {} }: AgentRun): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content, { mode: 0o600 });
  }
}
