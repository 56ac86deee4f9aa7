import { type AgentProcess, startAgent } from "./agent-process.ts";
import type { AgentRun } from "./agents/adapter.ts";
import { findAgent } from "./agents/index.ts";
import { uptimeMs } from "./clock.ts";
import { CONFIG_VARIABLE, type TurnConfig } from "./config.ts";
import { messageOf } from "./errors.ts";
import { decideLimit } from "./limits.ts";
import type { Output } from "./output.ts";
import type { Pipes } from "./pipes.ts";
import { killTurn, markersOf } from "./processes.ts";
import { type Activity, type EndReason, RUN_FILES, type Stream } from "./protocol.ts";

const { join } = process.getBuiltinModule("node:path");

/** Timers take 32 bits of milliseconds; a limit may be longer. */
const MAX_CHECK_MS = 60_000;

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
  /** There is room in the output again: the agent's pipes are read on. */
  resume(): void;
  agentPid(): number | null;
  activity(): Activity;
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
  let agentRun: AgentRun | undefined;
  let agent: AgentProcess | undefined;
  let quietSinceMs = uptimeMs();
  let paused = false;
  let killed = false;

  async function run(): Promise<Ending> {
    agentRun = findAgent(config.agent)?.start({ promptPath: join(config.runDir, RUN_FILES.prompt) });
    if (agentRun === undefined) return agentMissing(`there is no agent ${JSON.stringify(config.agent)}`);
    try {
      agent = await startAgent({
        ...agentRun,
        cwd: config.cwd,
        pipes,
        env: agentEnvironment(config),
        pipeGraceMs: timings.pipeGraceMs,
        onOutput,
        mayStart: () => !killed,
      });
    } catch (error) {
      return agentMissing(messageOf(error));
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
    return { reason: limited ?? "exited", ...exit };
  }

  function onOutput(stream: Stream, bytes: Buffer): void {
    quietSinceMs = uptimeMs();
    output.write(stream, bytes);
    if (output.isFull()) {
      paused = true;
      agent?.pause();
    }
    onChange();
  }

  function resume(): void {
    if (!paused) return;
    paused = false;
    quietSinceMs = uptimeMs();
    agent?.resume();
  }

  function limitReached(): Promise<"deadline" | "inactivity"> {
    return new Promise((resolve) => {
      const check = (): void => {
        const nowMs = uptimeMs();
        const decision = decideLimit({ nowMs, quietSinceMs, paused, activity: activity() }, config);
        if ("end" in decision) resolve(decision.end);
        // Pipes are read between a timer and its immediate: a runner that was held up sees what came meanwhile first.
        else setTimeout(() => setImmediate(check), Math.min(decision.checkInMs, MAX_CHECK_MS));
      };
      check();
    });
  }

  function kill(): Promise<boolean> {
    killed = true;
    return killTurn({ taskId, turn, groupId: agent?.pid }, timings.killGraceMs);
  }

  function activity(): Activity {
    return agentRun?.activity() ?? "none";
  }

  return { run, kill, resume, activity, agentPid: () => agent?.pid ?? null };
}

function agentMissing(detail: string): Ending {
  return { reason: "agent_missing", exitCode: null, signal: null, detail };
}

/** The turn's token stays with the runner; the markers come last so that nothing can hide from a sweep by its `env`. */
function agentEnvironment({ env, taskId, turn }: TurnConfig): NodeJS.ProcessEnv {
  const inherited = { ...process.env };
  delete inherited[CONFIG_VARIABLE];
  return { ...inherited, ...env, ...markersOf({ taskId, turn }) };
}
