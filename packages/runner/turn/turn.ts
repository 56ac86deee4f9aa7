import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Activity,
  type AgentReport,
  type EndPost,
  type GitCredential,
  type Leftover,
  runnerExit,
  turnMark,
} from "@concierge/protocol";
import { maskText } from "@concierge/protocol/mask";
import { createGit } from "../git/git.ts";
import { createRepo } from "../git/repo.ts";
import { createOutput } from "../output/output.ts";
import { createSpool } from "../output/spool.ts";
import { uptimeMs } from "../process/clock.ts";
import { messageOf } from "../process/errors.ts";
import { handleLeftovers } from "../process/leftovers.ts";
import { makePipes } from "../process/pipes.ts";
import { markersOf } from "../process/processes.ts";
import { createClient } from "../transport/client.ts";
import { type Delivery, deliver, type GrantRequest, reportOnce } from "../transport/deliver.ts";
import { createBell } from "./bell.ts";
import { secretsOf, type TurnConfig } from "./config.ts";
import { createStateFile } from "./state.ts";
import { createSupervisor } from "./supervise.ts";
import { type WorkReport, work } from "./work.ts";

export type Interruption = { kind: "signalled" } | { kind: "crashed"; detail: string };

type Outcome = Delivery | Interruption | { kind: "push_unknown" };

/** Runs the agent and delivers its output at the same time. Resolves with the runner's exit code. */
export async function runTurn(config: TurnConfig, interrupted: Promise<Interruption>): Promise<number> {
  // Started first, because it runs another process. A failure shows when the agent is started.
  const pipes = makePipes(config.runDir);
  pipes.catch(() => {});
  const { timings, url, token, requestId, traceparent } = config;
  const secrets = secretsOf(config);
  const client = createClient({
    url,
    token,
    mark: turnMark(config),
    requestId,
    traceparent,
    timeoutMs: timings.requestTimeoutMs,
  });
  const spool = createSpool(join(config.runDir, "spool"), config.maxSpoolBytes);
  const output = createOutput({
    ...config,
    secrets,
    spool,
    report: agentReport,
    now: uptimeMs,
  });
  const bell = createBell();
  const supervisor = createSupervisor({
    config,
    pipes,
    output,
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
  let leftovers: Leftover[] = [];
  const mask = (text: string): string => maskText(secrets, text);
  let giveUpAtMs = config.maxDurationMs + timings.giveUpMs;
  let grantRequest: GrantRequest | undefined;
  let report: WorkReport | undefined;
  let ended = false;

  const delivery = deliver({
    output,
    client,
    grantRequest: () => grantRequest,
    end: () => report && endPost(report),
    beat: () => ({ activity: activity(), ...agentReport() }),
    idle: bell.wait,
    sleep,
    onAcknowledged() {
      state.changed();
      supervisor.onDelivered();
    },
    hasEnded: () => ended || uptimeMs() >= giveUpAtMs,
    timings,
  });
  const outcome = await Promise.race([delivery, interrupted, doWork()]).catch(toCrash);
  ended = true;
  const exitCode = await close(outcome);
  state.close();
  spool.close();
  return exitCode;

  function agentReport(): AgentReport {
    return { ...supervisor.report(), ...(leftovers.length > 0 && { leftovers }) };
  }

  async function doWork(): Promise<Outcome> {
    leftovers = await handleLeftovers(config, timings.killGraceMs);
    const repo = config.repo && {
      config: config.repo,
      steps: createRepo({ config, repo: config.repo, git, mask }),
    };
    const result = await work({ supervisor, output, repo, requestGrant });
    if (result === "push_unknown") return { kind: result };
    report = result;
    bell.ring();
    return delivery;
  }

  function requestGrant(
    kind: GrantRequest["kind"],
    post: GrantRequest["post"],
  ): Promise<GitCredential | null> {
    return new Promise((resolve) => {
      grantRequest = { kind, post, onGranted };
      bell.ring();

      function onGranted(credential: GitCredential | null): void {
        grantRequest = undefined;
        if (credential !== null) hide(credential);
        // A granted push has its own time limit, which may exceed the deadline.
        if (kind === "finalize") giveUpAtMs = uptimeMs() + timings.finalizeMs + timings.giveUpMs;
        resolve(credential);
      }
    });
  }

  /** Masks the token as it is and as it stands in an HTTP header. */
  function hide({ username, token }: GitCredential): void {
    for (const secret of [token, Buffer.from(`${username}:${token}`).toString("base64")]) {
      secrets.push(secret);
      output.addSecret(secret);
    }
  }

  function activity(): Activity {
    return git.isBusy() ? "tool" : supervisor.activity();
  }

  async function close(result: Outcome): Promise<number> {
    if (result.kind === "done") return runnerExit.done;
    if (result.kind === "push_unknown") return runnerExit.pushUnknown;
    git.close();
    await supervisor.kill();
    switch (result.kind) {
      case "stopped":
        return runnerExit.stopped;
      case "gave_up":
        return runnerExit.gaveUp;
      case "signalled":
        return runnerExit.signalled;
      case "rejected":
      case "crashed": {
        const detail = mask(result.detail);
        await reportOnce(client, endPost({ reason: "runner_error", exitCode: null, signal: null, detail }));
        console.error(`concierge runner: ${detail}`);
        return runnerExit.runnerError;
      }
    }
  }

  function endPost(result: WorkReport): EndPost {
    const { ackedSeq, outputCutBytes } = output.progress();
    const detail = result.detail === undefined ? {} : { detail: mask(result.detail) };
    return {
      lastSeq: ackedSeq,
      ...result,
      ...detail,
      ...agentReport(),
      outputCutBytes,
      text: output.text(),
    };
  }
}

function toCrash(error: unknown): Interruption {
  return { kind: "crashed", detail: messageOf(error) };
}
