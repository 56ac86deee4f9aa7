import { clean } from "./agent-event.ts";
import { type AgentProcess, startAgent } from "./agent-process.ts";
import type { AgentAdapter, AgentReader, AgentRun } from "./agents/adapter.ts";
import { findAgent } from "./agents/index.ts";
import { uptimeMs } from "./clock.ts";
import { secretsOf, type TurnConfig } from "./config.ts";
import { agentEnvironment, homeOf, turnEnvironment, withPath } from "./environment.ts";
import { messageOf } from "./errors.ts";
import { directoryOf, findProgram, type InstallFailure, installAgent } from "./install.ts";
import { decideLimit } from "./limits.ts";
import { createLines } from "./lines.ts";
import { maskText } from "./mask.ts";
import type { Output } from "./output.ts";
import type { Pipes } from "./pipes.ts";
import { killTurn } from "./processes.ts";
import {
  type Activity,
  type AgentReport,
  type AgentUsage,
  type EndReason,
  MAX_DETAIL_LENGTH,
  RUN_FILES,
  type Stream,
} from "./protocol.ts";

const { mkdirSync, writeFileSync } = process.getBuiltinModule("node:fs");
const { dirname, join } = process.getBuiltinModule("node:path");

/** Timers take 32 bits of milliseconds; a limit may be longer. */
const MAX_CHECK_MS = 60_000;

/** What is told of an installation that failed. */
const LAST_LINES = 8;
const MAX_COST_USD = 1e6;

/** How the agent's part of the turn went. */
export interface Ending {
  reason: EndReason;
  exitCode: number | null;
  signal: string | null;
  agentMs?: number;
  detail?: string;
}

export interface Supervisor {
  /** Runs the agent to its end, or to a limit's; all it wrote is in the output then. */
  run(): Promise<Ending>;
  /** No agent is started after it. False where a process of the turn cannot be killed. */
  kill(): Promise<boolean>;
  /** Concierge has taken a batch. Where there is room again, the agent's pipes are read on. */
  delivered(): void;
  agentPid(): number | null;
  activity(): Activity;
  /** What the agent's adapter has understood so far. */
  report(): AgentReport;
}

export interface SupervisorOptions {
  config: TurnConfig;
  pipes: Promise<Pipes>;
  output: Output;
  onStarted(): void;
  /** The agent was started, or has said something. */
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
  const promptPath = join(config.runDir, RUN_FILES.prompt);
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
      return cannot("agent_missing", `there is no agent ${JSON.stringify(config.agent)}`);
    const unable = await makeSureOf(adapter);
    if (unable !== undefined) return unable;
    try {
      agent = await start(adapter);
    } catch (error) {
      return cannot("agent_missing", messageOf(error));
    }
    quietSinceMs = uptimeMs();
    onStarted();
    onChange();
    const limited = await Promise.race([agent.exited.then(() => undefined), limitReached()]);
    if (limited !== undefined && !(await kill())) {
      return { reason: limited, exitCode: null, signal: null, detail: "a process outlived SIGKILL" };
    }
    const exit = await agent.exited;
    await agent.drained;
    understand(lines.end());
    if (hasFailed && exit.exitCode === 0) return { reason: limited ?? "exited", ...exit, exitCode: 1 };
    return { reason: limited ?? "exited", ...exit };
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

  /** Undefined where the agent's program is there, or is now; tried once. */
  async function makeSureOf(adapter: AgentAdapter): Promise<Ending | undefined> {
    const { program, install } = adapter;
    const directory = directoryOf(home, adapter);
    const env = withPath(turnEnvironment(config), directory);
    const isThere = () => findProgram(program, env.PATH) !== undefined;
    if (isThere()) return undefined;
    if (!("version" in install) || directory === undefined) {
      const why = "impossible" in install ? `: ${install.impossible}` : "";
      return cannot("agent_missing", `${program} is not in this sandbox${why}`);
    }
    isInstalling = true;
    const onPid = (pid: number): void => {
      installerPid = pid;
      onChange();
    };
    const installed = installAgent({
      installation: install,
      directory,
      env,
      onStarted: onPid,
      onOutput: (bytes) => onOutput("stderr", bytes),
    });
    const limited = await Promise.race([installed.then(() => undefined), limitReached()]);
    if (limited !== undefined) {
      await kill();
      return cannot(limited, `${program} was being installed`);
    }
    const failure = await installed;
    isInstalling = false;
    installerPid = undefined;
    quietSinceMs = uptimeMs();
    if (failure !== undefined) return cannot("install_failed", describe(failure));
    return isThere() ? undefined : cannot("install_failed", `${program} is not among what was installed`);
  }

  /** Masked before it is cut: half a secret is none that is found. */
  function describe({ how, said }: InstallFailure): string {
    const words = maskText(secretsOf(config), clean(said)).slice(-MAX_DETAIL_LENGTH).trimEnd();
    return words === "" ? how : `${how}: ${words.split("\n").slice(-LAST_LINES).join("\n")}`;
  }

  function onOutput(stream: Stream, bytes: Buffer): void {
    quietSinceMs = uptimeMs();
    output.write(stream, bytes);
    if (stream === "stdout" && reader !== undefined) understand(lines.push(bytes));
    if (output.isFull()) {
      paused = true;
      agent?.pause();
    }
    onChange();
  }

  /** An adapter is not to throw; one that does all the same does not end the turn. */
  function understand(whole: readonly string[]): void {
    for (const line of whole) {
      try {
        for (const event of reader?.read(line) ?? []) {
          if (event.kind === "result") hasFailed = !event.ok;
          output.say(event);
        }
      } catch {
        // The line is in the output as it is.
      }
    }
  }

  function delivered(): void {
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
        // Pipes are read between a timer and its immediate: a runner that was held up sees what came meanwhile first.
        else setTimeout(() => setImmediate(check), Math.min(decision.checkInMs, MAX_CHECK_MS));
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

  return { run, kill, delivered, activity, report, agentPid: () => agent?.pid ?? null };
}

/** What Concierge takes: a batch must not be refused for what an agent says of itself. */
function boundedUsage(usage: AgentUsage | undefined): AgentUsage | undefined {
  if (usage === undefined) return undefined;
  const { inputTokens, outputTokens, costUsd } = usage;
  const count = (value: number) => Math.min(value, Number.MAX_SAFE_INTEGER);
  return {
    inputTokens: count(inputTokens),
    outputTokens: count(outputTokens),
    costUsd: Math.min(costUsd, MAX_COST_USD),
  };
}

function cannot(reason: EndReason, detail: string): Ending {
  return { reason, exitCode: null, signal: null, detail };
}

function writeFiles({ files = {} }: AgentRun): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content, { mode: 0o600 });
  }
}
