import type { AcquireDeps } from "../deps.ts";
import { AppError, ProviderError } from "../errors.ts";
import { execMarkMs, execUnmarkedMs } from "../limits.ts";
import type { Execution, ExecutionResult, LiveSandbox, SessionName } from "../ports.ts";
import type { AcquiredSandbox } from "./acquire.ts";
import { decideLife, decideSandbox } from "./decide.ts";
import { countPrepared, type PrepareOptions, prepareSandbox } from "./prepare.ts";
import { mustProbe } from "./release.ts";
import type { Session } from "./schema.ts";
import { noSuchSession } from "./verbs.ts";

export interface ExecOptions {
  /** Fails with `not_found` instead of creating the session. */
  mustExist?: boolean;
  /** How a sandbox is acquired if the recorded one cannot be used. */
  prepare?: (options: PrepareOptions) => Promise<AcquiredSandbox>;
}

/**
 * Runs a command in the session's sandbox. The sandbox is not probed first: a command that cannot run there is refused
 * before anything has run. Only then is a sandbox acquired as for a turn, and the command runs in that one.
 */
export async function exec(
  deps: AcquireDeps,
  name: SessionName,
  execution: Execution,
  { mustExist = false, prepare = (options) => prepareSandbox(deps, name, options) }: ExecOptions = {},
): Promise<ExecutionResult> {
  const until = deps.clock.now() + execution.timeoutMs;
  const { session, sandbox } = await useRecorded(deps, name, until);
  if (!session && mustExist) throw noSuchSession();
  const recorded = sandbox && { sandbox, origin: "reused" as const, steps: {} };
  const result =
    (await run(deps, name, execution, recorded ?? (await prepare({ until, session })))) ??
    (await run(deps, name, execution, await prepare({ until })));
  if (!result) throw sandboxLost();
  return result;
}

/** Undefined if the sandbox was gone or stopped before anything had run. */
async function run(
  deps: AcquireDeps,
  name: SessionName,
  execution: Execution,
  found: Pick<AcquiredSandbox, "sandbox" | "origin" | "steps">,
): Promise<ExecutionResult | undefined> {
  await using _inUse = keepInUse(deps, name);
  try {
    const [result] = await Promise.all([
      deps.provider.exec(found.sandbox, execution),
      countPrepared(deps, name.userId, found),
    ]);
    return result;
  } catch (error) {
    if (!(error instanceof ProviderError && (error.kind === "gone" || error.kind === "stopped"))) throw error;
    if (error.hasBegun) throw sandboxLost();
    if (error.kind === "stopped") await mustProbe(deps, name, found);
    return undefined;
  }
}

/**
 * Marks the session as used and returns its recorded sandbox, with one write. No session if there is none. No sandbox if
 * the session has none, or if it must be extended, moved or waited for first.
 */
async function useRecorded(
  { store, clock, config }: AcquireDeps,
  { userId, sessionKey }: SessionName,
  until: number,
): Promise<{ session?: Session; sandbox?: LiveSandbox }> {
  const now = clock.now();
  const used = await store.changeSession(userId, sessionKey, { isOpen: true }, { set: { lastUsedAt: now } });
  if (!used.won) return {};
  const session = used.item;
  const verdict = decideSandbox(session, "", now);
  if (verdict.kind !== "probe") return { session };
  const { sessionIdleMs: idleMs, sandboxMaxMs: maxMs } = config;
  const life = decideLife(verdict.sandbox, { until, idleMs, maxMs }, now);
  return life.kind === "lasts" ? { session, sandbox: verdict.sandbox } : { session };
}

/** Keeps the sandbox from being released while a command runs in it, until this is disposed of. */
function keepInUse({ store, clock }: AcquireDeps, { userId, sessionKey }: SessionName): AsyncDisposable {
  const done = new AbortController();
  let usedUntil: number | undefined;
  let writing: Promise<unknown> = Promise.resolve();
  const mark = async () => {
    const now = clock.now();
    const set = { lastUsedAt: now, usedUntil: now + execMarkMs };
    await store.changeSession(userId, sessionKey, { isOpen: true }, { set });
    usedUntil = set.usedUntil;
  };
  void (async () => {
    // Most commands end before the first mark.
    for (let pause: number = execUnmarkedMs; ; pause = execMarkMs / 3) {
      await clock.sleep(pause, done.signal);
      if (done.signal.aborted) return;
      // A failed mark must not fail the command. At worst the sandbox is released under it.
      writing = mark().catch(() => {});
      await writing;
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      done.abort();
      await writing;
      if (usedUntil === undefined) return;
      const change = { set: { lastUsedAt: clock.now() }, remove: ["usedUntil"] } as const;
      // If this fails, the mark expires by itself a moment later.
      await store.changeSession(userId, sessionKey, { usedUntil }, change).catch(() => {});
    },
  };
}

function sandboxLost(): AppError {
  return new AppError("session_not_ready", "The sandbox was lost while the command ran.");
}
