import type { SandboxDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import type { SandboxRef } from "../ports.ts";
import { giveUp, renewed } from "../session/decide.ts";
import { runDirOf } from "./launch.ts";
import { commandOf, type Task } from "./schema.ts";

/**
 * Kills what a turn started, and says whether nothing of it is left. Proof is that its sandbox is stopped or gone, or
 * that a sweep inside finds nothing that began with the turn. A killed command proves nothing: what it started may
 * have left its group.
 */
export async function proveDeath(deps: SandboxDeps, task: Task): Promise<boolean> {
  if (!wasClaimed(task)) return true;
  const sandbox = task.sandbox ?? (await fenceWorker(deps, task));
  return sandbox === undefined || (await killIn(deps, task, sandbox));
}

/** Until it is claimed nobody can have launched it, and from `stopping` on nobody can claim it. */
function wasClaimed({ phases, turn }: Task): boolean {
  return phases.some((phase) => phase.turn === turn && phase.status === "provisioning");
}

async function killIn(deps: SandboxDeps, task: Task, sandbox: SandboxRef): Promise<boolean> {
  if (task.keepAlive && (await sweep(deps, task, sandbox))) return true;
  const marked = await markReleasing(deps, task, sandbox.name);
  if (!marked) return false;
  await deps.provider.remove(sandbox.name);
  // The rest of the release is a worker's: whoever asked for the stop does not wait for it.
  if (marked !== "not the session's") await deps.work.send({ kind: "release", ...marked });
  return true;
}

/**
 * In the record first, under the turn's own lease: whoever is slow to remove the sandbox must not take it from the
 * next turn, which another's proof let in meanwhile. Nothing where the session is another turn's already.
 */
async function markReleasing(
  { store }: SandboxDeps,
  { id, turn, userId, sessionKey }: Task,
  name: string,
): Promise<{ userId: string; sessionKey: string; epoch: number } | "not the session's" | undefined> {
  for (;;) {
    const session = await store.getSession(userId, sessionKey);
    if (session?.sandbox?.name !== name) return "not the session's";
    const { lease, epoch, sandbox } = session;
    if (lease?.taskId !== id || lease.turn !== turn) return undefined;
    if (sandbox.state === "releasing") return { userId, sessionKey, epoch };
    const { createdAt, slot } = sandbox;
    const releasing = { state: "releasing", name, createdAt, ...(slot !== undefined && { slot }) } as const;
    const marked = await store.changeSession(
      userId,
      sessionKey,
      { lease, epoch },
      // The epoch moves with it: nobody who saw the sandbox ready can write that it still is.
      { set: { epoch: epoch + 1, sandbox: releasing } },
    );
    if (marked.won) return { userId, sessionKey, epoch: epoch + 1 };
  }
}

/** A sandbox that no longer runs has nothing left in it; one that can not be asked is stopped. */
async function sweep(deps: SandboxDeps, task: Task, sandbox: SandboxRef): Promise<boolean> {
  const runDir = runDirOf(task);
  const { commandId } = commandOf(task);
  try {
    const found = await deps.provider.sweep(sandbox, runDir, { commandId });
    if (found !== "superseded") return found === "clean";
    // With the lease still this turn's, nobody else can have been let in: the word is an older turn's, or the agent's.
    if (!(await hasLease(deps, task))) return false;
    return (await deps.provider.sweep(sandbox, runDir, { commandId, evenIfSuperseded: true })) === "clean";
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    return error.kind === "gone" || error.kind === "stopped";
  }
}

async function hasLease({ store }: SandboxDeps, { id, turn, userId, sessionKey }: Task): Promise<boolean> {
  const lease = (await store.getSession(userId, sessionKey))?.lease;
  return lease?.taskId === id && lease.turn === turn;
}

/**
 * A worker may be anywhere between its claim and its launch. Each of its writes to the session is conditional on the
 * very lease and epoch it saw, so moving those makes it lose the next one:
 *
 *   claim        intent          create        ready          launch
 *   ──┬────────────┬───────────────┬─────────────┬───────────────┬──►
 *     │ no sandbox │ `creating`: the epoch moves │ `ready`: the sweep bars the launch
 *
 * What it was creating may still come into being; its name is kept, and looked for until it can not any more.
 */
async function fenceWorker(
  { store, provider, clock }: SandboxDeps,
  task: Task,
): Promise<SandboxRef | undefined> {
  for (;;) {
    const session = await store.getSession(task.userId, task.sessionKey);
    const lease = session?.lease;
    if (!session || lease?.taskId !== task.id || lease.turn !== task.turn) return undefined;

    const now = clock.now();
    const { sandbox, epoch } = session;
    const moved = renewed(lease, now);
    const change =
      sandbox?.state === "creating"
        ? { set: { lease: moved, epoch: epoch + 1, ...giveUp(session, now) }, remove: ["sandbox"] as const }
        : { set: { lease: moved } };
    const fenced = await store.changeSession(task.userId, task.sessionKey, { lease, epoch }, change);
    if (!fenced.won) continue;

    if (sandbox?.state === "ready") return { name: sandbox.name, sessionId: sandbox.sessionId };
    if (sandbox) await provider.remove(sandbox.name);
    return undefined;
  }
}
