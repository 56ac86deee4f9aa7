import type { Execution, ExecutionResult } from "@concierge/core";
import type { Session } from "@vercel/sandbox";
import { classified } from "./errors.ts";

/** How much longer than the command a call about it may take. */
const slackMs = 15_000;

/** Runs a command to its end, or kills it when its time is over; of what it says only so much is taken. */
export async function execute(session: Session, execution: Execution): Promise<ExecutionResult> {
  const { cmd, args, cwd, env, timeoutMs, maxBytes } = execution;
  const signal = AbortSignal.timeout(timeoutMs + slackMs);
  const command = await classified("run a command", () =>
    session.runCommand({
      cmd,
      args: [...args],
      ...(cwd !== undefined && { cwd }),
      ...(env && { env: { ...env } }),
      detached: true,
      signal,
    }),
  );
  const overdue = setTimeout(
    () => void command.kill("SIGKILL", { abortSignal: signal }).catch(() => {}),
    timeoutMs,
  );
  const began = performance.now();
  try {
    const [said, { exitCode }] = await Promise.all([
      classified("read a command's output", () => collect(command, maxBytes), { hasBegun: true }),
      classified("wait for a command", () => command.wait({ signal }), { hasBegun: true }),
    ]);
    const isOver = performance.now() - began >= timeoutMs;
    return { ...said, exitCode: isOver ? null : exitCode };
  } finally {
    clearTimeout(overdue);
  }
}

async function collect(
  command: Awaited<ReturnType<Session["getCommand"]>>,
  maxBytes: number,
): Promise<Omit<ExecutionResult, "exitCode">> {
  const texts = { stdout: "", stderr: "" };
  const left = { stdout: maxBytes, stderr: maxBytes };
  let truncated = false;
  for await (const { stream, data } of command.logs()) {
    const bytes = Buffer.byteLength(data);
    const kept = bytes <= left[stream] ? data : Buffer.from(data).subarray(0, left[stream]).toString("utf8");
    texts[stream] += kept;
    left[stream] = Math.max(left[stream] - bytes, 0);
    truncated ||= kept !== data;
  }
  return { ...texts, truncated };
}
