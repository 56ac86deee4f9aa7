import type { LaunchDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { sandboxName, sessionId } from "../ids.ts";
import { app, sandboxMaxMs, sandboxSlackMs } from "../limits.ts";
import { claimWarm } from "../pool/index.ts";
import type { LiveSandbox } from "../ports.ts";
import { giveUp, renewed, reusableSandbox } from "../session/decide.ts";
import type { Lease, Session, SessionSandbox } from "../session/schema.ts";
import { isClaimedBy } from "./decide.ts";
import { failTurn } from "./end.ts";
import { when } from "./guards.ts";
import type { Progress } from "./progress.ts";
import type { SandboxUse, Task } from "./schema.ts";

/** The session's own sandbox where it still runs, else a new one, named in the record before it exists. */
export async function assignSandbox(
  deps: LaunchDeps,
  task: Task,
  claimId: string,
  progress: Progress,
): Promise<SandboxUse | undefined> {
  const { store, clock } = deps;
  const session = await store.getSession(task.userId, task.sessionKey);
  // Read after the session: a stop writes the task first and then moves the lease, so a turn that is still ours here
  // has its lease as it was read, and a stop that comes now makes each later write to the session lose.
  if (!isClaimedBy(await store.getTask(task.id), task.turn, claimId)) return undefined;
  const lease = session?.lease;
  if (!session || !lease || lease.taskId !== task.id || lease.turn !== task.turn) {
    await failTurn(deps, task, when.claimedBy(task.turn, claimId), lostSession, "worker");
    return undefined;
  }

  const known = reusableSandbox(session, clock.now());
  if (known) {
    const live = await probe(deps, task, known, progress);
    const origin = known.state === "ready" ? "reused" : "cold";
    if (live && (await lastsLongEnough(deps, task, live))) {
      return await keep(deps, task, session, lease, live, origin);
    }
  }
  const warm = await claimWarm(deps, task, task.deadlineAt + sandboxSlackMs);
  if (warm) return await moveIn(deps, task, session, lease, warm);
  return await create(deps, task, session, lease, progress);
}

/** A claimed sandbox becomes the session's; one that the session does not take is nobody's, and goes. */
async function moveIn(
  { store, provider, clock, config }: LaunchDeps,
  task: Task,
  session: Session,
  lease: Lease,
  warm: LiveSandbox,
): Promise<SandboxUse | undefined> {
  const now = clock.now();
  const epoch = session.epoch + 1;
  const outcome = await store.changeSession(
    task.userId,
    task.sessionKey,
    { lease, epoch: session.epoch },
    {
      set: {
        lease: renewed(lease, now),
        lastUsedAt: now,
        dueAt: now + config.sessionIdleMs,
        epoch,
        sandbox: { state: "ready", createdAt: now, ...warm },
        ...giveUp(session, now),
      },
    },
  );
  if (!outcome.won) {
    await provider.remove(warm.name);
    return undefined;
  }
  if (session.sandbox) await provider.remove(session.sandbox.name);
  return { name: warm.name, sessionId: warm.sessionId, origin: "warm", epoch };
}

/** Asks the provider before a sandbox is trusted: what has gone is made anew, not installed into. */
async function probe(
  { provider, flags, metrics }: LaunchDeps,
  task: Task,
  known: SessionSandbox,
  progress: Progress,
): Promise<LiveSandbox | undefined> {
  const isOn = await flags.isOn("ENABLE_HEALTH_PROBE", task.userId);
  if (!isOn && known.state === "ready") return { ...known };
  await progress("probing", known.name);
  const live = await provider.find(known.name);
  metrics.count(live ? "health_healthy" : "health_gone");
  return live;
}

/** Extends it to the turn's end and a little more. What the provider will not extend is not worth moving into. */
async function lastsLongEnough({ provider }: LaunchDeps, task: Task, live: LiveSandbox): Promise<boolean> {
  const missingMs = task.deadlineAt + sandboxSlackMs - live.expiresAt;
  if (missingMs <= 0) return true;
  try {
    await provider.extend(live, missingMs);
    live.expiresAt += missingMs;
    return true;
  } catch (error) {
    if (error instanceof ProviderError && error.kind === "refused") return false;
    throw error;
  }
}

async function keep(
  deps: LaunchDeps,
  task: Task,
  session: Session,
  lease: Lease,
  live: LiveSandbox,
  origin: SandboxUse["origin"],
): Promise<SandboxUse | undefined> {
  const now = deps.clock.now();
  const ready = { state: "ready", name: live.name, createdAt: session.sandbox?.createdAt ?? now } as const;
  const outcome = await deps.store.changeSession(
    task.userId,
    task.sessionKey,
    { lease, epoch: session.epoch },
    {
      set: {
        lease: renewed(lease, now),
        lastUsedAt: now,
        dueAt: now + deps.config.sessionIdleMs,
        sandbox: { ...ready, sessionId: live.sessionId, expiresAt: live.expiresAt },
      },
    },
  );
  return outcome.won
    ? { name: live.name, sessionId: live.sessionId, origin, epoch: session.epoch }
    : undefined;
}

async function create(
  deps: LaunchDeps,
  task: Task,
  session: Session,
  lease: Lease,
  progress: Progress,
): Promise<SandboxUse | undefined> {
  const { store, provider, clock, config } = deps;
  const epoch = session.epoch + 1;
  const id = sessionId(task.userId, task.sessionKey);
  const name = sandboxName(app, config.stage, id, epoch);
  const createdAt = clock.now();
  const held = renewed(lease, createdAt);

  const intent = await store.changeSession(
    task.userId,
    task.sessionKey,
    { lease, epoch: session.epoch },
    {
      set: {
        lease: held,
        lastUsedAt: createdAt,
        dueAt: createdAt + config.sessionIdleMs,
        epoch,
        sandbox: { state: "creating", name, createdAt },
        ...giveUp(session, createdAt),
      },
    },
  );
  if (!intent.won) return undefined;
  // Only now: whoever lost the session meanwhile must not take from it what another turn may be running in.
  if (session.sandbox) await provider.remove(session.sandbox.name);

  await progress("creating", name);
  const timeoutMs = Math.min(
    Math.max(task.deadlineAt - createdAt + sandboxSlackMs, config.sessionIdleMs),
    sandboxMaxMs,
  );
  const live = await provider.create({
    name,
    timeoutMs,
    tags: { app, stage: config.stage, user: task.userId, session: task.sessionKey },
  });
  // The lease moves with each of a worker's writes: whoever saw `creating` and means to end the turn must look again.
  const ready = await store.changeSession(
    task.userId,
    task.sessionKey,
    { lease: held, epoch },
    {
      set: {
        lease: renewed(held, clock.now()),
        sandbox: { state: "ready", name, createdAt, sessionId: live.sessionId, expiresAt: live.expiresAt },
      },
    },
  );
  if (ready.won) return { name, sessionId: live.sessionId, origin: "cold", epoch };

  // The session went on to another epoch while this one was being made: nobody else knows of it, so it goes.
  if (ready.item?.epoch !== epoch) await provider.remove(name);
  return undefined;
}

const lostSession = {
  code: "internal",
  detail: "The session went to another turn before this one began.",
} as const;
