import { createHash } from "node:crypto";
import type { LaunchDeps } from "../deps.ts";
import { tokenSlackMs } from "../limits.ts";
import { runningDueAt } from "./decide.ts";
import { when } from "./guards.ts";
import type { Progress } from "./progress.ts";
import type { SandboxUse, Task } from "./schema.ts";
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
  sandbox: SandboxUse,
  progress: Progress,
): Promise<void> {
  const { provider, store, clock, timers } = deps;
  const runDir = runDirOf(task);
  await progress("launching", `The runner, for agent ${task.agent}.`);
  await provider.writeFiles(sandbox, [
    { path: `${runDir}/runner.mjs`, content: deps.runner },
    { path: `${runDir}/prompt`, content: task.prompt },
    // Whose sandbox it now is, for a sweep of the turn before that comes late.
    { path: `${runDirs}/current`, content: `${runDir.slice(runDirs.length + 1)}\n` },
  ]);
  // Armed before the launch: a worker that dies in between leaves a timer too many, not an agent without one.
  await timers.arm({ kind: "inactivity", taskId: task.id, turn: task.turn }, task.limits.inactivityMs);
  const commandId = await provider.launch(sandbox, {
    cmd: "node",
    args: [fromWorkingDirectory(`${runDir}/runner.mjs`)],
    env: { CONCIERGE_TURN: JSON.stringify(await turnOf(deps, task, runDir)) },
  });

  const now = clock.now();
  // Only by whoever has the claim: another's sandbox may be one that was given up since, and a stop would look in it.
  await store.changeTask(task.id, when.claimedBy(task.turn, claimId), {
    set: {
      state: { status: "running", commandId },
      sandbox,
      startedAt: now,
      lastActivityAt: now,
      dueAt: runningDueAt({ ...task, lastActivityAt: now }),
    },
    phase: { turn: task.turn, status: "running", at: now, by: "worker", note: `sandbox ${sandbox.origin}` },
  });
}

/** What the runner is told. It goes with the launch, so that it is on no disk and in no argument. */
async function turnOf(deps: LaunchDeps, task: Task, runDir: string) {
  const { config, clock, sealer, flags, callbackUrl } = deps;
  const endsSilence = await flags.isOn("ENABLE_INACTIVITY_TIMEOUT", task.userId);
  const maxDurationMs = Math.max(task.deadlineAt - clock.now(), 1);
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
    maxOutputBytes: config.maxOutputBytes,
    env: openSecrets(sealer, task).env ?? {},
    ...(task.repo && { repo: { ...task.repo, message: commitMessage(task) } }),
  };
}

function commitMessage({ prompt }: Task): string {
  const [first = ""] = prompt.trim().split("\n");
  return first.length > 72 ? `${first.slice(0, 71)}…` : first;
}

/** A session may work on several repositories; each has a clone of its own. */
function cloneName(url: string): string {
  const name = /([A-Za-z0-9._-]+?)(?:\.git)?\/*$/.exec(new URL(url).pathname)?.[1] ?? "repo";
  return `${name}-${createHash("sha256").update(url).digest("hex").slice(0, 8)}`;
}
