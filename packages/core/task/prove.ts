import type { SandboxDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { unansweredSweepsMax } from "../limits.ts";
import { removeLeftovers } from "../pool/slots.ts";
import type { SandboxRef } from "../ports.ts";
import { filesOf, renewed, stillMaking } from "../session/decide.ts";
import { markReleasing } from "../session/release.ts";
import { runDirOf } from "./launch.ts";
import { commandOf, type Task } from "./schema.ts";

/**
 * Kills what a turn started, and says whether nothing of it is left. Proof is that its sandbox is stopped or gone, or
 * that a sweep inside finds nothing that began with the turn. A killed command proves nothing: what it started may
 * have left its group. `attempts` is how often this was tried, this time included.
 */
export async function proveDeath(deps: SandboxDeps, task: Task, attempts: number): Promise<boolean> {
  if (!wasClaimed(task)) return true;
  const sandbox = task.sandbox ?? (await fenceWorker(deps, task));
  return sandbox === undefined || (await killIn(deps, task, sandbox, attempts));
}

/** Until it is claimed nobody can have launched it, and from `stopping` on nobody can claim it. */
function wasClaimed({ phases, turn }: Task): boolean {
  return phases.some((phase) => phase.turn === turn && phase.status === "provisioning");
}

/**
 * A kept sandbox is swept. It is deleted only where something in it is known to live on, or where the provider has not
 * answered several times in a row: one bad minute of the provider must not cost the user the sandbox.
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
  // A worker does the rest of the release, so that the caller who waits for the stop does not. Where this message is
  // lost, the session is due.
  if (marked !== "not the session's") await deps.work.send({ kind: "release", ...marked }).catch(() => {});
  return true;
}

/** What a sweep says of the turn's processes; a provider that does not answer says nothing. */
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
    // With the lease still this turn's, no other turn can have been let in: what says so is an older turn's, or the agent's.
    if (!(await hasLease(deps, task))) return "alive";
    const again = await deps.provider.sweep(sandbox, runDir, { commandId, evenIfSuperseded: true });
    return again === "clean" ? "dead" : "alive";
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    return error.kind === "gone" || error.kind === "stopped" ? "dead" : "unknown";
  }
}

async function hasLease({ store }: SandboxDeps, { id, turn, userId, sessionKey }: Task): Promise<boolean> {
  const lease = (await store.getSession(userId, sessionKey))?.lease;
  return lease?.taskId === id && lease.turn === turn;
}

/**
 * A worker may be anywhere between its claim and its launch. Each of its writes to the session is conditional on the
 * very lease and epoch it read, so moving those makes it lose the next one:
 *
 *   claim        intent          create        ready          launch
 *   ──┬────────────┬───────────────┬─────────────┬───────────────┬──►
 *     │ no sandbox │ `creating`: the epoch moves │ `ready`: the sweep bars the launch
 *
 * What it was creating may still come into being; its slot names it, and the reaper removes it (`pool/slots.ts`).
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
    const guard = { lease, epoch, ...stillMaking(session) };
    const fenced = await store.changeSession(task.userId, task.sessionKey, guard, change);
    if (!fenced.won) continue;

    // An earlier worker of this turn may have launched it in a sandbox that the session gave up since; only its slot
    // still names it. It goes too: otherwise the turn would be called dead while it runs there.
    const { item } = fenced;
    const current = { name: item.sandbox?.name ?? "", epoch: item.epoch };
    await removeLeftovers(deps, item, current, { keepSnapshots: item.snapshotId !== undefined });
    if (sandbox?.state === "ready") return { name: sandbox.name, sessionId: sandbox.sessionId };
    if (sandbox) await provider.remove(sandbox.name);
    return undefined;
  }
}
