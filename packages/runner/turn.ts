import { createBell } from "./bell.ts";
import { createClient } from "./client.ts";
import { uptimeMs } from "./clock.ts";
import { secretsOf, type TurnConfig } from "./config.ts";
import { type Delivery, deliver, type Request, reportOnce } from "./deliver.ts";
import { messageOf } from "./errors.ts";
import { createGit } from "./git.ts";
import { maskText } from "./mask.ts";
import { createOutput } from "./output.ts";
import { makePipes } from "./pipes.ts";
import { markersOf } from "./processes.ts";
import {
  type Activity,
  type AgentReport,
  type EndPost,
  type GitCredential,
  RUNNER_EXIT,
  turnMark,
} from "./protocol.ts";
import { createRepo } from "./repo.ts";
import { createSpool } from "./spool.ts";
import { createStateFile } from "./state.ts";
import { createSupervisor } from "./supervise.ts";
import { type Report, work } from "./work.ts";

const { join } = process.getBuiltinModule("node:path");
const { setTimeout: sleep } = process.getBuiltinModule("node:timers/promises");

export type Interruption = { kind: "signalled" } | { kind: "crashed"; detail: string };

/** Runs the agent and delivers what it says, at the same time. Resolves with the runner's exit code. */
export async function runTurn(config: TurnConfig, interrupted: Promise<Interruption>): Promise<number> {
  // Begun first, as it is another process that does it; where it fails, the agent's start says so.
  const pipes = makePipes(config.runDir);
  pipes.catch(() => {});
  const { timings } = config;
  const secrets = secretsOf(config);
  const { url, token, requestId } = config;
  const client = createClient({
    url,
    token,
    mark: turnMark(config),
    requestId,
    timeoutMs: timings.requestTimeoutMs,
  });
  const spool = createSpool(join(config.runDir, "spool"), config.maxSpoolBytes);
  const output = createOutput({ ...config, secrets, spool, report: agentReport, now: uptimeMs });
  const bell = createBell();
  const supervisor = createSupervisor({
    config,
    pipes,
    output,
    // While the agent begins: its first word then does not wait for a connection.
    onStarted: () => client.connect(),
    onChange() {
      state.changed();
      bell.ring();
    },
  });
  const state = createStateFile(config.runDir, timings.stateMs, () => {
    const { producedSeq, ackedSeq, lastOutputAt } = output.progress();
    return {
      at: new Date().toISOString(),
      pid: process.pid,
      agentPid: supervisor.agentPid(),
      lastOutputAt,
      producedSeq,
      ackedSeq,
      activity: activity(),
    };
  });
  const git = createGit({
    markers: markersOf(config),
    timings,
    onChange: () => state.changed(),
  });
  const mask = (text: string): string => maskText(secrets, text);
  let giveUpAtMs = config.maxDurationMs + timings.giveUpMs;
  let request: Request | undefined;
  let report: Report | undefined;
  let over = false;

  const delivery = deliver({
    output,
    client,
    request: () => request,
    end: () => report && endPost(report),
    beat: () => ({ activity: activity(), ...agentReport() }),
    idle: bell.wait,
    sleep,
    onAcknowledged() {
      state.changed();
      supervisor.delivered();
    },
    isOver: () => over || uptimeMs() >= giveUpAtMs,
    timings,
  });
  const outcome = await Promise.race([delivery, interrupted, doWork()]).catch(toCrash);
  over = true;
  const exitCode = await close(outcome);
  state.close();
  spool.close();
  return exitCode;

  async function doWork(): Promise<Delivery | { kind: "push_unknown" }> {
    const repo = config.repo && {
      config: config.repo,
      steps: createRepo({ config, repo: config.repo, git, mask }),
    };
    const result = await work({ supervisor, output, repo, ask });
    if (result === "push_unknown") return { kind: result };
    report = result;
    bell.ring();
    return delivery;
  }

  function ask(kind: Request["kind"], post: Request["post"]): Promise<GitCredential | null> {
    return new Promise((resolve) => {
      request = { kind, post, onGranted };
      bell.ring();

      function onGranted(credential: GitCredential | null): void {
        request = undefined;
        if (credential !== null) hide(credential);
        // A granted push has a time of its own, past the deadline if need be.
        if (kind === "finalize") giveUpAtMs = uptimeMs() + timings.finalizeMs + timings.giveUpMs;
        resolve(credential);
      }
    });
  }

  /** As it is, and as it stands in a request. */
  function hide({ username, token }: GitCredential): void {
    for (const secret of [token, Buffer.from(`${username}:${token}`).toString("base64")]) {
      secrets.push(secret);
      output.addSecret(secret);
    }
  }

  function activity(): Activity {
    return git.isBusy() ? "tool" : supervisor.activity();
  }

  function agentReport(): AgentReport {
    return supervisor.report();
  }

  async function close(result: Delivery | Interruption | { kind: "push_unknown" }): Promise<number> {
    if (result.kind === "done") return RUNNER_EXIT.done;
    if (result.kind === "push_unknown") return RUNNER_EXIT.pushUnknown;
    git.close();
    await supervisor.kill();
    switch (result.kind) {
      case "stopped":
        return RUNNER_EXIT.stopped;
      case "gave_up":
        return RUNNER_EXIT.gaveUp;
      case "signalled":
        return RUNNER_EXIT.signalled;
      case "rejected":
      case "crashed": {
        const detail = mask(result.detail);
        await reportOnce(client, endPost({ reason: "runner_error", exitCode: null, signal: null, detail }));
        console.error(`concierge runner: ${detail}`);
        return RUNNER_EXIT.runnerError;
      }
    }
  }

  function endPost(result: Report): EndPost {
    const { ackedSeq, outputCutBytes } = output.progress();
    const detail = result.detail === undefined ? {} : { detail: mask(result.detail) };
    return { lastSeq: ackedSeq, ...result, ...detail, ...agentReport(), outputCutBytes, text: output.text() };
  }
}

function toCrash(error: unknown): Interruption {
  return { kind: "crashed", detail: messageOf(error) };
}
