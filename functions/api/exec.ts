import { type Deps, type EndingDeps, limits, type SessionName, withoutNul } from "@concierge/core";
import { exec } from "@concierge/core/session/exec";
import * as z from "zod/mini";

export const execRequestSchema = z
  .strictObject({
    command: z.string().check(z.minLength(1), z.maxLength(4096), withoutNul),
    args: z.optional(z.array(z.string().check(z.maxLength(128 * 1024), withoutNul)).check(z.maxLength(256))),
    cwd: z.optional(z.string().check(z.minLength(1), z.maxLength(4096), withoutNul)),
    env: z.optional(
      z
        .record(
          z.string().check(z.regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/)),
          z.string().check(z.maxLength(limits.envMaxBytes), withoutNul),
        )
        .check(
          z.refine((env) => Object.keys(env).length <= limits.envMaxNames, {
            error: `must have ${limits.envMaxNames} names at most`,
          }),
        ),
    ),
    timeoutMs: z.optional(z.int().check(z.minimum(1), z.maximum(limits.execTimeoutMaxMs))),
  })
  .register(z.globalRegistry, { id: "ExecRequest" });

export const execResultSchema = z
  .object({
    /** Null if the command was killed at its timeout. */
    exitCode: z.nullable(z.int()),
    stdout: z.string(),
    stderr: z.string(),
    durationMs: z.int(),
    timedOut: z.boolean(),
    truncated: z.boolean(),
    /** A stop of the session's turn killed the command. */
    stopped: z.optional(z.literal(true)),
  })
  .register(z.globalRegistry, { id: "ExecResult" });

/** Runs a command in the session's sandbox, waits for it, and says whether a stop killed it. */
export async function execInSession(
  deps: EndingDeps,
  name: SessionName,
  { command: cmd, args = [], timeoutMs = limits.execTimeoutMs, ...rest }: z.infer<typeof execRequestSchema>,
): Promise<z.infer<typeof execResultSchema>> {
  const from = deps.clock.now();
  const execution = { cmd, args, timeoutMs, maxBytes: limits.execMaxBytes, ...rest };
  const result = await exec(deps, name, execution, { mustExist: true });
  const durationMs = deps.clock.now() - from;
  const stopped = wasSignalled(result) && (await wasTurnStopped(deps, name, from));
  return { ...result, durationMs, timedOut: result.exitCode === null, ...(stopped && { stopped }) };
}

/** The exit codes of SIGKILL and SIGTERM. */
function wasSignalled({ exitCode }: { exitCode: number | null }): boolean {
  return exitCode === 137 || exitCode === 143;
}

/** Whether a turn of the session was being stopped at any time since `from`. */
async function wasTurnStopped(
  { store }: Pick<Deps, "store">,
  { userId, sessionKey }: SessionName,
  from: number,
): Promise<boolean> {
  const lease = (await store.getSession(userId, sessionKey))?.lease;
  const task = lease && (await store.getTask(lease.taskId));
  if (!task) return false;
  if (task.state.status === "stopping") return true;
  const stopping = task.phases.findLast(({ status }) => status === "stopping");
  const last = task.phases.at(-1);
  return stopping !== undefined && stopping.turn === task.turn && last !== undefined && last.at >= from;
}
