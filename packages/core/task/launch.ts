import { createHash } from "node:crypto";
import {
  currentFile,
  type LaunchConfig,
  protocolVersion,
  runDirName,
  runDirs,
  runFiles,
  variables,
} from "@concierge/protocol";
import type { AgentAccess, LaunchDeps } from "../deps.ts";
import { SetupError } from "../errors.ts";
import { activityCapMs, tokenSlackMs } from "../limits.ts";
import type { AcquiredSandbox, ReplaceReason } from "../session/acquire.ts";
import { hasLease } from "../session/lease.ts";
import { runningDueAt } from "./decide.ts";
import { when } from "./guards.ts";
import { type Memory, remember } from "./memory.ts";
import { closeNetwork, gitRules, modelRules } from "./network.ts";
import type { Progress } from "./progress.ts";
import { promptOf } from "./prompt.ts";
import { isTerminal, type Notice, type SandboxUse, type Task } from "./schema.ts";
import { openSecrets } from "./secrets.ts";

/** The turn's own directory in its sandbox. */
export function runDirOf({ id, turn }: Pick<Task, "id" | "turn">): string {
  return `${runDirs}/${runDirName({ taskId: id, turn })}`;
}

/**
 * Uploads the runner, starts it and records that. Safe to repeat: a second launch finds the first one's file and exits.
 */
export async function launch(
  deps: LaunchDeps,
  task: Task,
  claimId: string,
  acquired: AcquiredSandbox,
  progress: Progress,
): Promise<void> {
  const { provider, store, clock, timers } = deps;
  const { sandbox } = acquired;
  const runDir = runDirOf(task);
  const steps: Record<string, number> = { ...acquired.steps };
  const timed = async <T>(step: string, work: Promise<T>): Promise<T> => {
    const from = clock.now();
    const result = await work;
    steps[step] = clock.now() - from;
    return result;
  };
  const access = accessOf(deps, task);
  const [memory, prompt] = await Promise.all([remember(deps, task, acquired), promptOf(store, task)]);
  const files = [
    { path: `${runDir}/${runFiles.runner}`, content: deps.runner },
    { path: `${runDir}/${runFiles.prompt}`, content: `${memory.replay ?? ""}${prompt}` },
    // Names the turn that owns the sandbox now. A late sweep of the previous turn reads it and spares this one.
    { path: `${runDirs}/${currentFile}`, content: `${runDirName({ taskId: task.id, turn: task.turn })}\n` },
  ];
  const inactivity = { kind: "inactivity", taskId: task.id, turn: task.turn } as const;
  const [launchConfig, { agentEnv, hosts }] = await Promise.all([
    launchConfigOf(deps, task, prompt),
    limitNetwork(deps, task, acquired, access),
    // For later turns. A long prompt is stored already.
    task.prompt !== undefined &&
      store.putPrompt(task.id, { turn: task.turn, key: task.turnKey }, prompt, task.expiresAt),
    progress("launching", `Starting the runner for agent ${task.agent}.`),
    refreshEnvironment(deps, task, acquired, progress),
    timed("upload", provider.writeFiles(sandbox, files)),
    // Armed before the launch: a worker that dies in between leaves an extra timer, not an agent without one.
    timers.arm(inactivity, task.limits.inactivityMs),
  ]);
  const config: LaunchConfig = { ...launchConfig, agentEnv, ...conversationOf(memory) };
  const env = { [variables.launchConfig]: JSON.stringify(config) };
  const commandId = await timed("launch", provider.launch(sandbox, runDir, env));

  const now = clock.now();
  const use = { ...useOf(acquired, steps), ...(hosts && { hosts }) };
  // Another worker may have given this sandbox up since. Record it only under our own claim; otherwise a stop would
  // look in the wrong sandbox.
  const running = await store.changeTask(task.id, when.claimedBy(task.turn, claimId), {
    set: {
      state: { status: "running", commandId },
      sandbox: use,
      startedAt: now,
      lastActivityAt: now,
      dueAt: runningDueAt({ ...task, lastActivityAt: now }),
    },
    phase: { turn: task.turn, status: "running", at: now, by: "worker", note: `sandbox ${acquired.origin}` },
    ...noticeOf(acquired, memory, task.turn, now),
  });
  if (!running.won) {
    // The turn was ended, or another worker launches it. Its own end may have reset the policy before ours arrived. If the
    // turn is over, take its credentials away again; otherwise they would stay until the next turn. Only while it has
    // the lease: the next turn has its own policy, and would lose its credentials.
    if (isOver(running.item, task.turn) && (await hasLease(deps, task)))
      await closeNetwork(deps, { ...task, sandbox: use });
    return;
  }
  countAcquired(deps, use);
  if (task.turn > 1)
    deps.metrics.count("turn_continued", 1, { context: memory.lost.length === 0 ? "kept" : "lost" });
}

function isOver(task: Task | undefined, turn: number): boolean {
  return task?.turn === turn && (task.state.status === "stopping" || isTerminal(task.state.status));
}

function useOf(
  { sandbox, origin, epoch, idleMs, replaced }: AcquiredSandbox,
  steps: Record<string, number>,
): SandboxUse {
  return {
    name: sandbox.name,
    sessionId: sandbox.sessionId,
    origin,
    epoch,
    initMs: Object.values(steps).reduce((total, ms) => total + ms, 0),
    steps,
    ...(idleMs !== undefined && { idleMs }),
    ...(replaced && { replaced: replaced.reason }),
  };
}

/** Tells the user what a conversation lost when it continues in another sandbox. */
function noticeOf(
  { replaced }: AcquiredSandbox,
  { lost }: Memory,
  turn: number,
  at: number,
): { notice?: Notice } {
  if (lost.length === 0) return {};
  const why = replaced
    ? `The sandbox of the previous turn ${lostHow[replaced.reason]}.`
    : "The turn runs in a different sandbox.";
  const what = lost.map((part) => lostWhat[part]).join(" ");
  return { notice: { code: "context_lost", detail: `${why} ${what}`, turn, at } };
}

const lostHow: Readonly<Record<ReplaceReason, string>> = {
  gone: "is gone",
  released: "was released",
  max_life: "reached the end of its life",
};

const lostWhat: Readonly<Record<Memory["lost"][number], string>> = {
  conversation: "The agent's conversation is lost; earlier turns are replayed to it as far as they fit.",
  files: "Files that were not pushed are lost.",
};

function conversationOf({ conversationId }: Memory) {
  return conversationId === undefined ? {} : { conversationId };
}

function accessOf({ agents }: LaunchDeps, { agent }: Task): AgentAccess {
  const access = agents[agent];
  if (access.missing.length === 0) return access;
  throw new SetupError(`The agent ${agent} needs ${access.missing.join(" and ")}, which is not set.`);
}

/**
 * Limits the sandbox's network to what the turn needs. If the provider injects credentials, the agent gets a placeholder
 * instead of its key, and git gets nothing.
 */
async function limitNetwork(
  { provider, callbackUrl, sealer }: LaunchDeps,
  task: Task,
  { sandbox }: AcquiredSandbox,
  { hosts, env, secrets }: AgentAccess,
): Promise<{ agentEnv: Record<string, string>; hosts?: string[] }> {
  // With the port, if it is not the standard one: on one machine, a credential must not go to another service.
  const git = task.repo ? [new URL(task.repo.url).host] : [];
  const allow = [...new Set([new URL(callbackUrl).host, ...git, ...hosts, ...(task.network?.allow ?? [])])];
  // Every launch of the turn uses the same placeholder. A second worker may replace the policy after the first one's
  // launch; with another placeholder the agent would then lose its key.
  const placeholder = sealer.placeholder({ taskId: task.id, turn: task.turn });
  const credential = openSecrets(sealer, task).git;
  const inject = [...modelRules(secrets, placeholder), ...gitRules(task.repo, credential, ["fetch"])];
  const network = await provider.guardNetwork(sandbox, { allow, inject });
  const given = secrets.map(({ name, value }) => [name, network === "guarded" ? placeholder : value]);
  const agentEnv = { ...env, ...Object.fromEntries(given) };
  return network === "guarded" ? { agentEnv, hosts: allow } : { agentEnv };
}

function countAcquired({ metrics }: LaunchDeps, use: SandboxUse): void {
  const { origin, initMs = 0, steps = {}, idleMs, replaced } = use;
  metrics.count("room_given", 1, { origin });
  metrics.count("room_ms", initMs, { origin });
  for (const [step, ms] of Object.entries(steps)) metrics.count("room_step_ms", ms, { step });
  if (idleMs !== undefined) metrics.count("room_idle_ms", idleMs, { fate: "used" });
  if (replaced) metrics.count("room_replaced", 1, { reason: replaced });
}

/** Another worker inspects the sandbox while the agent runs. Nobody waits for it; the session shows the result. */
async function refreshEnvironment(
  { work }: LaunchDeps,
  task: Task,
  acquired: AcquiredSandbox,
  progress: Progress,
): Promise<void> {
  if (!acquired.environmentDue) return;
  const { userId, sessionKey } = task;
  await progress(
    "environment",
    "The sandbox's environment is being inspected; the session shows the result.",
  );
  await work.send({ kind: "environment", userId, sessionKey, epoch: acquired.epoch });
}

/** The runner's configuration. It travels in the launch's environment, so it is on no disk and in no argument. */
async function launchConfigOf(deps: LaunchDeps, task: Task, prompt: string): Promise<LaunchConfig> {
  const { config, clock, sealer, flags, callbackUrl } = deps;
  const endsSilence = await flags.isOn("ENABLE_INACTIVITY_TIMEOUT", task.userId);
  const maxDurationMs = Math.max(task.deadlineAt - clock.now(), 1);
  const requestId = deps.requestId?.();
  const traceparent = deps.traceparent?.();
  return {
    protocol: protocolVersion,
    taskId: task.id,
    turn: task.turn,
    url: callbackUrl,
    token: sealer.issueToken({ taskId: task.id, turn: task.turn, expiresAt: task.deadlineAt + tokenSlackMs }),
    agent: task.agent,
    cwd: task.repo ? cloneName(task.repo.url) : ".",
    maxDurationMs,
    inactivityMs: endsSilence ? task.limits.inactivityMs : maxDurationMs,
    activityCapMs: endsSilence ? Math.max(activityCapMs, task.limits.inactivityMs) : maxDurationMs,
    maxOutputBytes: config.maxOutputBytes,
    env: openSecrets(sealer, task).env ?? {},
    ...(requestId !== undefined && { requestId }),
    ...(task.leftovers && { leftovers: task.leftovers }),
    ...(traceparent !== undefined && { traceparent }),
    ...(task.repo && { repo: { ...task.repo, message: commitMessage(prompt) } }),
  };
}

function commitMessage(prompt: string): string {
  const [first = ""] = prompt.trim().split("\n");
  return first.length > 72 ? `${first.slice(0, 71)}…` : first;
}

/** A session may use several repositories; each has its own clone. */
function cloneName(url: string): string {
  const name = /([A-Za-z0-9._-]+?)(?:\.git)?\/*$/.exec(new URL(url).pathname)?.[1] ?? "repo";
  return `${name}-${createHash("sha256").update(url).digest("hex").slice(0, 8)}`;
}
