import type { SandboxDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { longestCreateMs } from "../limits.ts";
import type { SandboxRef } from "../ports.ts";
import { runDirOf } from "./launch.ts";
import type { Task } from "./schema.ts";

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

async function killIn({ provider }: SandboxDeps, task: Task, sandbox: SandboxRef): Promise<boolean> {
  if (task.keepAlive && (await sweep(provider, task, sandbox))) return true;
  await provider.remove(sandbox.name);
  return true;
}

/** A sandbox that no longer runs has nothing left in it; one that can not be asked is stopped. */
async function sweep(provider: SandboxDeps["provider"], task: Task, sandbox: SandboxRef): Promise<boolean> {
  try {
    return await provider.sweep(sandbox, runDirOf(task));
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    return error.kind === "gone" || error.kind === "stopped";
  }
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
    const moved = { ...lease, at: Math.max(now, lease.at + 1) };
    const change =
      sandbox?.state === "creating"
        ? {
            set: {
              lease: moved,
              epoch: epoch + 1,
              tombstones: [
                ...(session.tombstones ?? []).filter(({ until }) => until > now),
                { name: sandbox.name, until: now + longestCreateMs },
              ],
            },
            remove: ["sandbox"] as const,
          }
        : { set: { lease: moved } };
    const fenced = await store.changeSession(task.userId, task.sessionKey, { lease, epoch }, change);
    if (!fenced.won) continue;

    if (sandbox?.state === "ready") return { name: sandbox.name, sessionId: sandbox.sessionId };
    if (sandbox) await provider.remove(sandbox.name);
    return undefined;
  }
}
