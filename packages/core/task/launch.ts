import { createHash } from "node:crypto";
import type { AgentAccess, LaunchDeps } from "../deps.ts";
import { SetupError } from "../errors.ts";
import { activityCapMs, tokenSlackMs } from "../limits.ts";
import type { ReplaceReason, Room } from "../ports.ts";
import { runningDueAt } from "./decide.ts";
import { when } from "./guards.ts";
import { type Memory, remember } from "./memory.ts";
import type { Progress } from "./progress.ts";
import { promptOf } from "./prompt.ts";
import type { Notice, SandboxUse, Task } from "./schema.ts";
import { openSecrets } from "./secrets.ts";

const runDirs = "/tmp/concierge";

/**
 * A path as a command is given it: commands begin in /vercel/sandbox. Where a sandbox is only a directory, as on a
 * machine that can not isolate, what is absolute for the provider's files is not so for its programs.
 */
export function fromWorkingDirectory(path: string): string {
  return `../..${path}`;
}

/** The turn's own directory in its sandbox. */
export function runDirOf({ id, turn }: Pick<Task, "id" | "turn">): string {
  return `${runDirs}/${id}-${turn}`;
}

/** Uploads the runner and starts it, then says so. Doing it twice is harmless: the second runner finds the first. */
export async function launch(
  deps: LaunchDeps,
  task: Task,
  claimId: string,
  room: Room,
  progress: Progress,
): Promise<void> {
  const { provider, store, clock, timers } = deps;
  const { sandbox } = room;
  const runDir = runDirOf(task);
  const steps: Record<string, number> = { ...room.steps };
  const timed = async <T>(step: string, work: Promise<T>): Promise<T> => {
    const from = clock.now();
    const result = await work;
    steps[step] = clock.now() - from;
    return result;
  };
  const access = accessOf(deps, task);
  const [memory, prompt] = await Promise.all([remember(deps, task, room), promptOf(store, task)]);
  const files = [
    { path: `${runDir}/runner.mjs`, content: deps.runner },
    { path: `${runDir}/prompt`, content: `${memory.replay ?? ""}${prompt}` },
    // Whose sandbox it now is, for a sweep of the turn before that comes late.
    { path: `${runDirs}/current`, content: `${runDir.slice(runDirs.length + 1)}\n` },
  ];
  const inactivity = { kind: "inactivity", taskId: task.id, turn: task.turn } as const;
  const [turn, agentEnv] = await Promise.all([
    turnOf(deps, task, prompt, runDir),
    guard(deps, task, room, access),
    // For the turns to come: a long one is stored already.
    task.prompt !== undefined &&
      store.putPrompt(task.id, { turn: task.turn, key: task.turnKey }, prompt, task.expiresAt),
    progress("launching", `The runner, for agent ${task.agent}.`),
    refreshEnvironment(deps, task, room, progress),
    timed("upload", provider.writeFiles(sandbox, files)),
    // Armed before the launch: a worker that dies in between leaves a timer too many, not an agent without one.
    timers.arm(inactivity, task.limits.inactivityMs),
  ]);
  const env = { CONCIERGE_TURN: JSON.stringify({ ...turn, agentEnv, ...conversationOf(memory) }) };
  const commandId = await timed("launch", provider.launch(sandbox, runDir, env));

  const now = clock.now();
  const use = useOf(room, steps);
  // Only under our own claim. Another worker may have given this sandbox up since; a stop would then look in the wrong one.
  const running = await store.changeTask(task.id, when.claimedBy(task.turn, claimId), {
    set: {
      state: { status: "running", commandId },
      sandbox: use,
      startedAt: now,
      lastActivityAt: now,
      dueAt: runningDueAt({ ...task, lastActivityAt: now }),
    },
    phase: { turn: task.turn, status: "running", at: now, by: "worker", note: `sandbox ${room.origin}` },
    ...noticeOf(room, memory, task.turn, now),
  });
  if (!running.won) return;
  countRoom(deps, use);
  if (task.turn > 1)
    deps.metrics.count("turn_continued", 1, { context: memory.lost.length === 0 ? "kept" : "lost" });
}

function useOf(
  { sandbox, origin, epoch, idleMs, replaced }: Room,
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

/** A conversation that goes on in another sandbox than before is told what it no longer has. */
function noticeOf({ replaced }: Room, { lost }: Memory, turn: number, at: number): { notice?: Notice } {
  if (lost.length === 0) return {};
  const why = replaced
    ? `The sandbox of the turn before is ${lostHow[replaced.reason]}.`
    : "The sandbox is another.";
  const what = lost.map((part) => lostWhat[part]).join(" ");
  return { notice: { code: "context_lost", detail: `${why} ${what}`, turn, at } };
}

const lostHow: Readonly<Record<ReplaceReason, string>> = {
  gone: "gone",
  released: "given up",
  max_life: "at the end of its life",
};

const lostWhat: Readonly<Record<Memory["lost"][number], string>> = {
  conversation: "The agent's conversation is lost; what was said is replayed to it, as far as it fits.",
  files: "Files that were not pushed are lost.",
};

function conversationOf({ conversationId }: Memory) {
  return conversationId === undefined ? {} : { conversationId };
}

function accessOf({ agents }: LaunchDeps, { agent }: Task): AgentAccess {
  const access = agents[agent];
  if (access.missing.length === 0) return access;
  throw new SetupError(`The agent ${agent} needs ${access.missing.join(" and ")}, which is not set here.`);
}

/**
 * Lets the sandbox reach what the turn needs and no more. Where the provider puts the agent's key into its requests
 * itself, the key stays outside, and the agent is given a word in its place.
 */
async function guard(
  { provider, callbackUrl }: LaunchDeps,
  task: Task,
  { sandbox }: Room,
  { hosts, env, secrets }: AgentAccess,
): Promise<Record<string, string>> {
  const inject: Record<string, Record<string, string>> = {};
  for (const { host, header, scheme, value } of secrets)
    inject[host] = { ...inject[host], [header]: scheme === undefined ? value : `${scheme} ${value}` };
  const git = task.repo ? [new URL(task.repo.url).hostname] : [];
  const allow = new Set([new URL(callbackUrl).hostname, ...git, ...hosts, ...(task.network?.allow ?? [])]);
  const network = await provider.guardNetwork(sandbox, { allow: [...allow], inject });
  const given = secrets.map(({ name, value }) => [name, network === "guarded" ? outside : value]);
  return { ...env, ...Object.fromEntries(given) };
}

const outside = "kept-outside-the-sandbox";

function countRoom({ metrics }: LaunchDeps, use: SandboxUse): void {
  const { origin, initMs = 0, steps = {}, idleMs, replaced } = use;
  metrics.count("room_given", 1, { origin });
  metrics.count("room_ms", initMs, { origin });
  for (const [step, ms] of Object.entries(steps)) metrics.count("room_step_ms", ms, { step });
  if (idleMs !== undefined) metrics.count("room_idle_ms", idleMs, { fate: "used" });
  if (replaced) metrics.count("room_replaced", 1, { reason: replaced });
}

/** By another worker, while the agent is started and runs: nobody waits for it, and the session shows what it found. */
async function refreshEnvironment(
  { work }: LaunchDeps,
  task: Task,
  room: Room,
  progress: Progress,
): Promise<void> {
  if (!room.environmentDue) return;
  const { userId, sessionKey } = task;
  await progress(
    "environment",
    "What is in the sandbox is being looked at; the session shows it when it is known.",
  );
  await work.send({ kind: "environment", userId, sessionKey, epoch: room.epoch });
}

/** What the runner is told. It goes with the launch, so that it is on no disk and in no argument. */
async function turnOf(deps: LaunchDeps, task: Task, prompt: string, runDir: string) {
  const { config, clock, sealer, flags, callbackUrl } = deps;
  const endsSilence = await flags.isOn("ENABLE_INACTIVITY_TIMEOUT", task.userId);
  const maxDurationMs = Math.max(task.deadlineAt - clock.now(), 1);
  const requestId = deps.requestId?.();
  return {
    protocol: 1,
    taskId: task.id,
    turn: task.turn,
    url: callbackUrl,
    token: sealer.issueToken({ taskId: task.id, turn: task.turn, expiresAt: task.deadlineAt + tokenSlackMs }),
    agent: task.agent,
    runDir: fromWorkingDirectory(runDir),
    cwd: task.repo ? cloneName(task.repo.url) : ".",
    maxDurationMs,
    inactivityMs: endsSilence ? task.limits.inactivityMs : maxDurationMs,
    activityCapMs: endsSilence ? Math.max(activityCapMs, task.limits.inactivityMs) : maxDurationMs,
    maxOutputBytes: config.maxOutputBytes,
    env: openSecrets(sealer, task).env ?? {},
    ...(requestId !== undefined && { requestId }),
    ...(task.repo && { repo: { ...task.repo, message: commitMessage(prompt) } }),
  };
}

function commitMessage(prompt: string): string {
  const [first = ""] = prompt.trim().split("\n");
  return first.length > 72 ? `${first.slice(0, 71)}…` : first;
}

/** A session may work on several repositories; each has a clone of its own. */
function cloneName(url: string): string {
  const name = /([A-Za-z0-9._-]+?)(?:\.git)?\/*$/.exec(new URL(url).pathname)?.[1] ?? "repo";
  return `${name}-${createHash("sha256").update(url).digest("hex").slice(0, 8)}`;
}
