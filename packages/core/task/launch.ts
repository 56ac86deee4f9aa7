import { z } from "zod";
import type { SandboxDeps } from "../deps.ts";
import { tokenSlackMs } from "../limits.ts";
import { when } from "./guards.ts";
import type { Progress } from "./progress.ts";
import type { SandboxUse, Task } from "./schema.ts";

const workingDirectory = "/vercel/sandbox";

/** Uploads the runner and starts it, then says so. Doing it twice is harmless: the second runner finds the first. */
export async function launch(
  deps: SandboxDeps,
  task: Task,
  sandbox: SandboxUse,
  progress: Progress,
): Promise<void> {
  const { provider, store, clock } = deps;
  const runDir = `/tmp/concierge/${task.id}-${task.turn}`;
  await progress("launching", `The runner, for agent ${task.agent}.`);
  await provider.writeFiles(sandbox, [
    { path: `${runDir}/runner.mjs`, content: deps.runner },
    { path: `${runDir}/prompt`, content: task.prompt },
  ]);
  const commandId = await provider.launch(sandbox, {
    cmd: "node",
    args: [`${runDir}/runner.mjs`],
    env: { CONCIERGE_TURN: JSON.stringify(turnOf(deps, task, runDir)) },
  });

  const now = clock.now();
  await store.changeTask(task.id, when.provisioning(task.turn), {
    set: {
      state: { status: "running", commandId },
      sandbox,
      startedAt: now,
      lastActivityAt: now,
      dueAt: task.deadlineAt,
    },
    phase: { turn: task.turn, status: "running", at: now, by: "worker", note: `sandbox ${sandbox.origin}` },
  });
}

/** What the runner is told. It goes with the launch, so that it is on no disk and in no argument. */
function turnOf({ config, clock, sealer, callbackUrl }: SandboxDeps, task: Task, runDir: string) {
  return {
    protocol: 1,
    taskId: task.id,
    turn: task.turn,
    url: callbackUrl,
    token: sealer.issueToken({ taskId: task.id, turn: task.turn, expiresAt: task.deadlineAt + tokenSlackMs }),
    agent: task.agent,
    runDir,
    cwd: workingDirectory,
    maxDurationMs: Math.max(task.deadlineAt - clock.now(), 1),
    inactivityMs: task.limits.inactivityMs,
    maxOutputBytes: config.maxOutputBytes,
    env: task.sealedEnv ? environment.parse(JSON.parse(sealer.open(task.sealedEnv, task.id))) : {},
  };
}

const environment = z.record(z.string(), z.string());
