import { setTimeout as delay } from "node:timers/promises";
import type { Execution, ExecutionResult } from "@concierge/core";
import type { Command } from "@vercel/sandbox";
import type { InSession } from "./calls.ts";

/** How much longer than the command a call for it may take. */
const slackMs = 15_000;
/** How long to wait for the end after a failed kill: the kill may have worked and only its answer been lost. */
const failedKillGraceMs = 1_000;

/**
 * Runs a command until it ends or its time is over, then kills it. The output is read after the end: the provider keeps
 * it, and it is known to cut streams that are open for minutes.
 */
export async function execute(inside: InSession, execution: Execution): Promise<ExecutionResult> {
  const { cmd, args, cwd, env, timeoutMs, maxBytes } = execution;
  const command = await inside.call("run a command", (session, signal) =>
    session.runCommand({
      cmd,
      args: [...args],
      ...(cwd !== undefined && { cwd }),
      ...(env && { env: { ...env } }),
      detached: true,
      signal,
    }),
  );
  const exitCode = await waitOrKill(inside, command, timeoutMs);
  const output = await inside.call(
    "read a command's output",
    (_session, signal) => collect(command, maxBytes, signal),
    { hasBegun: true },
  );
  return { ...output, exitCode };
}

/** The exit code, or null if the command was killed. Throws if the kill fails: the command may still run. */
async function waitOrKill(inside: InSession, command: Command, timeoutMs: number): Promise<number | null> {
  const done = new AbortController();
  const unlessDone = (signal: AbortSignal) => AbortSignal.any([signal, done.signal]);
  let isOverdue = false;
  const end = inside.call(
    "wait for a command",
    (_session, signal) => command.wait({ signal: unlessDone(signal) }),
    { hasBegun: true, timeoutMs: timeoutMs + slackMs },
  );
  const killWhenOverdue = async () => {
    await delay(timeoutMs, undefined, { signal: done.signal });
    isOverdue = true;
    try {
      await inside.call(
        "kill a command",
        (_session, signal) => command.kill("SIGKILL", { abortSignal: unlessDone(signal) }),
        { hasBegun: true, timeoutMs: slackMs },
      );
    } catch (error) {
      await delay(failedKillGraceMs, undefined, { signal: done.signal });
      throw error;
    }
    return await end;
  };
  try {
    const { exitCode } = await Promise.race([end, killWhenOverdue()]);
    return isOverdue ? null : exitCode;
  } finally {
    done.abort();
  }
}

async function collect(
  command: Command,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Omit<ExecutionResult, "exitCode">> {
  const texts = { stdout: "", stderr: "" };
  const left = { stdout: maxBytes, stderr: maxBytes };
  let truncated = false;
  using logs = command.logs({ signal });
  for await (const { stream, data } of logs) {
    const bytes = Buffer.byteLength(data);
    const kept = bytes <= left[stream] ? data : Buffer.from(data).subarray(0, left[stream]).toString("utf8");
    texts[stream] += kept;
    left[stream] = Math.max(left[stream] - bytes, 0);
    truncated ||= kept !== data;
  }
  return { ...texts, truncated };
}
