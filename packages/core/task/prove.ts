import { removeLeftovers } from "../capacity/slots.ts";
import type { SandboxDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { unansweredSweepsMax } from "../limits.ts";
import type { SandboxRef } from "../ports.ts";
import { filesOf, renewed, stillCreating } from "../session/decide.ts";
import { hasLease } from "../session/lease.ts";
import { markReleasing } from "../session/release.ts";
import { runDirOf } from "./launch.ts";
import { commandOf, type Task } from "./schema.ts";

/**
 * Kills what a turn started and returns whether nothing is left. Proof is a stopped or missing sandbox, or a sweep
 * inside that finds nothing started with or after the turn. A killed command proves nothing: its children may have left
 * the process group. Neither does an error of the provider. `attempts` includes this one.
 */
export async function proveDeath(deps: SandboxDeps, task: Task, attempts: number): Promise<boolean> {
  if (!wasClaimed(task)) return true;
  try {
    const sandbox = task.sandbox ?? (await fenceWorker(deps, task));
    return sandbox === undefined || (await killIn(deps, task, sandbox, attempts));
  } catch (error) {
    if (error instanceof ProviderError) return false;
    throw error;
  }
}

/** A turn that was never claimed was never launched, and from `stopping` on nobody can claim it. */
function wasClaimed({ phases, turn }: Task): boolean {
  return phases.some((phase) => phase.turn === turn && phase.status === "provisioning");
}

/**
 * Sweeps a kept sandbox. Deletes it only if something in it is known to live on, or after several unanswered sweeps:
 * one bad minute of the provider must not cost the user the sandbox.
 */
async function killIn(
  deps: SandboxDeps,
  task: Task,
  sandbox: SandboxRef,
  attempts: number,
): Promise<boolean> {
  if (task.keepAlive) {
    const found = await sweep(deps, task, sandbox);
    if (found === "dead") return true;
    if (found === "unknown" && attempts < unansweredSweepsMax) return false;
  }
  const { id: taskId, turn, userId, sessionKey } = task;
  const marked = await markReleasing(deps, { userId, sessionKey }, sandbox.name, { taskId, turn });
  if (marked === "another's") return false;
  await deps.provider.remove(sandbox.name);
  // A worker finishes the release, so the caller of the stop does not wait. If the message is lost, the session is due.
  if (marked !== "not the session's") await deps.work.send({ kind: "release", ...marked }).catch(() => {});
  return true;
}

/** What a sweep says about the turn's processes. No answer says nothing. */
async function sweep(
  deps: SandboxDeps,
  task: Task,
  sandbox: SandboxRef,
): Promise<"dead" | "alive" | "unknown"> {
  const runDir = runDirOf(task);
  const { commandId } = commandOf(task);
  try {
    const found = await deps.provider.sweep(sandbox, runDir, { commandId });
    if (found !== "superseded") return found === "clean" ? "dead" : "alive";
    // While this turn holds the lease, no other turn was launched. So the file that says otherwise is old, or the agent
    // wrote it.
    if (!(await hasLease(deps, task))) return "alive";
    const again = await deps.provider.sweep(sandbox, runDir, { commandId, evenIfSuperseded: true });
    return again === "clean" ? "dead" : "alive";
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    return error.kind === "gone" || error.kind === "stopped" ? "dead" : "unknown";
  }
}

/**
 * A worker may be anywhere between its claim and its launch. Each of its writes to the session is conditional on the
 * lease and epoch it read. Moving those makes its next write lose:
 *
 *   claim        intent          create        ready          launch
 *   ──┬────────────┬───────────────┬─────────────┬───────────────┬──►
 *     │ no sandbox │ `creating`: the epoch moves │ `ready`: the sweep bars the launch
 *
 * A create that is under way may still succeed. Its slot names that sandbox, and the reaper removes it.
 */
async function fenceWorker(deps: SandboxDeps, task: Task): Promise<SandboxRef | undefined> {
  const { store, provider, clock } = deps;
  for (;;) {
    const session = await store.getSession(task.userId, task.sessionKey);
    const lease = session?.lease;
    if (!session || lease?.taskId !== task.id || lease.turn !== task.turn) return undefined;

    const { sandbox, epoch } = session;
    const set = { lease: renewed(lease, clock.now()) };
    const change =
      sandbox?.state === "creating"
        ? { set: { ...set, epoch: epoch + 1, ...filesOf(sandbox) }, remove: ["sandbox"] as const }
        : { set };
    const guard = { lease, epoch, ...stillCreating(session) };
    const fenced = await store.changeSession(task.userId, task.sessionKey, guard, change);
    if (!fenced.won) continue;

    // An earlier worker may have launched this turn in a sandbox that the session has given up since; only its slot
    // still names it. Remove that sandbox too; otherwise the turn is called dead while it runs there.
    if (task.maybeLaunched) {
      const { item } = fenced;
      const current = { name: item.sandbox?.name ?? "", epoch: item.epoch };
      const keepSnapshots = item.snapshotId !== undefined;
      await removeLeftovers(deps, item, current, { keepSnapshots, keepSlots: true });
    }
    if (sandbox?.state === "ready") return { name: sandbox.name, sessionId: sandbox.sessionId };
    if (sandbox) await provider.remove(sandbox.name);
    return undefined;
  }
}
