import { limits, type Provider, ProviderError, type RunnerReport } from "@concierge/core";
import { runFiles } from "@concierge/protocol";
import { Sandbox, Snapshot } from "@vercel/sandbox";
import { type Calls, createCalls, type InSession, isSettled, probeTimeoutMs } from "./calls.ts";
import { confirmedAs, isSnapshotMissing, statusOf } from "./errors.ts";
import { execute } from "./execute.ts";
import { toVercelPolicy } from "./network-policy.ts";
import { fromWorkingDirectory } from "./paths.ts";
import { readRunnerState } from "./runner-state.ts";
import { hideConfigScript, launchScript, sweepScript } from "./shell/scripts.ts";
import { isBarred, readLaunchTime, sweepResults } from "./sweep.ts";
import type { ProviderOptions } from "./vercel.ts";

const createTimeoutMs = 60_000;
/** The files of a stopped sandbox are deleted after this time without a resume. */
const keptStoppedMs = 7 * 24 * 60 * 60_000;
/** A concurrent sweep may kill ours, so it is repeated. If each one is killed, the agent is killing them. */
const sweepAttempts = 3;
const sweepTimeoutMs = 5_000;

/**
 * The `Provider` on the SDK. Everything inside a sandbox goes through `Session`, whose methods never resume a stopped
 * sandbox. The methods of `Sandbox` do, and a late call of one would undo a stop.
 */
export function createSdkProvider(options: ProviderOptions): Provider {
  const calls = createCalls(options);
  const { call, enter, lookUp, remember } = calls;

  const probe: Provider["probe"] = async (name) => {
    const sandbox = await lookUp(name, probeTimeoutMs);
    if (!sandbox) return { health: "gone" };
    const { status } = sandbox.currentSession();
    if (status === "running") return { health: "healthy", sandbox: remember(sandbox) };
    // While it starts or stops it is neither healthy nor gone. The caller asks again.
    if (!isSettled(status)) throw new ProviderError("transient", `The sandbox ${name} is ${status}.`);
    return { health: hasEnded(sandbox) ? "gone" : "resumable" };
  };

  return {
    probe,

    async create({ name, tags, timeoutMs, snapshotId, policy }) {
      const common = {
        ...calls.common,
        name,
        tags,
        timeout: timeoutMs,
        resources: { vcpus: limits.sandboxVcpus },
        // Its files survive its timeout, so that it can be resumed. `remove` deletes them.
        persistent: true,
        keepLastSnapshots: { count: 1 },
        snapshotExpiration: keptStoppedMs,
        ...(policy && { networkPolicy: toVercelPolicy(policy, options) }),
      };
      const create = (signal: AbortSignal) =>
        snapshotId === undefined
          ? Sandbox.create({ ...common, runtime: "node24", signal })
          : Sandbox.create({ ...common, source: { type: "snapshot", snapshotId }, signal });
      try {
        return remember(await call("create a sandbox", create, { timeoutMs: createTimeoutMs }));
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error;
        if (isNameTaken(error)) return remember(await adopt(calls, name, tags, error));
        throw await confirmSnapshot(calls, snapshotId, error);
      }
    },

    async resume(name) {
      const resume = (signal: AbortSignal) => Sandbox.get({ ...calls.common, name, resume: true, signal });
      try {
        return remember(await call("resume the sandbox", resume, { timeoutMs: createTimeoutMs }));
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error;
        if (isSnapshotMissing(error)) throw confirmedAs("gone", error);
        if (error.kind !== "stopped") throw error;
        // A resume that is answered with "stopped" is transient, unless there is nothing left to resume.
        const sandbox = await calls.lookAgain(name);
        throw confirmedAs(sandbox && !hasEnded(sandbox) ? "transient" : "gone", error);
      }
    },

    async snapshot(ref, keepMs) {
      const inside = await enter(ref);
      const { snapshotId } = await inside.call(
        "take a snapshot",
        (session, signal) => session.snapshot({ expiration: keepMs, signal }),
        { timeoutMs: createTimeoutMs },
      );
      return snapshotId;
    },

    async deleteSnapshot(snapshotId) {
      try {
        await call("delete the snapshot", async (signal) => {
          const snapshot = await Snapshot.get({ ...calls.common, snapshotId, signal });
          await snapshot.delete({ signal });
        });
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error;
        if (error.kind === "gone" || isSnapshotMissing(error)) return;
        throw error.kind === "stopped" ? confirmedAs("transient", error) : error;
      }
    },

    async exec(ref, execution) {
      return await execute(await enter(ref), execution);
    },

    async writeFiles(ref, files) {
      const inside = await enter(ref);
      await inside.call("write files", (session, signal) => session.writeFiles([...files], { signal }));
    },

    async guardNetwork(ref, policy) {
      const inside = await enter(ref);
      const networkPolicy = toVercelPolicy(policy, options);
      try {
        await inside.call("guard the network", (session, signal) =>
          session.update({ networkPolicy }, { signal }),
        );
        return "guarded";
      } catch (error) {
        // The local API without isolation enforces no policy, and says so.
        const isUnsupported = error instanceof ProviderError && statusOf(error) === 400;
        if (options.baseUrl !== undefined && isUnsupported) return "open";
        throw error;
      }
    },

    async launch(ref, runDir, env) {
      const inside = await enter(ref);
      const directory = fromWorkingDirectory(runDir);
      const runner = ["node", `${directory}/${runFiles.runner}`];
      const args = ["-c", hideConfigScript, "sh", launchScript, directory, ...runner];
      const command = await inside.call("launch the runner", (session, signal) =>
        session.runCommand({ cmd: "sh", args, env, detached: true, signal }),
      );
      return command.cmdId;
    },

    async sweep(ref, runDir, { commandId, evenIfSuperseded = false } = {}) {
      const inside = await enter(ref);
      const since = commandId === undefined ? undefined : await readStartTime(inside, commandId);
      const args = [
        "-c",
        sweepScript,
        "sh",
        fromWorkingDirectory(runDir),
        since ?? "",
        ...(evenIfSuperseded ? ["yes"] : []),
      ];
      for (let attempt = 0; attempt < sweepAttempts; attempt++) {
        const { exitCode } = await inside.call(
          "sweep the sandbox",
          (session, signal) => session.runCommand({ cmd: "sh", args, sudo: true, signal }),
          { timeoutMs: sweepTimeoutMs },
        );
        const result = sweepResults.get(exitCode);
        if (result) return result;
      }
      throw new ProviderError("transient", `No sweep of ${ref.name} returned a result.`);
    },

    async ask(ref, runDir, commandId) {
      const inside = await enter(ref);
      const launch = await askLaunch(inside, commandId);
      const file = await inside.call("read the runner's state", (session, signal) =>
        session.readFileToBuffer({ path: `${runDir}/${runFiles.state}` }, { signal }),
      );
      // The SDK reports every 404 of a read as a missing file, but the session may be missing.
      if (!file && commandId === undefined) await calls.assertThere(ref);
      return { launch, state: file ? readRunnerState(file.toString("utf8")) : undefined };
    },

    async list({ stage }, cursor) {
      const list = (signal: AbortSignal) =>
        Sandbox.list({ ...calls.common, tags: { stage }, limit: 50, ...(cursor && { cursor }), signal });
      const page = await call("list the sandboxes", list).catch((error: unknown) => {
        throw error instanceof ProviderError ? withoutClaim(error) : error;
      });
      return {
        items: page.sandboxes.map(({ name, createdAt, status, tags = {} }) => ({
          name,
          createdAt,
          tags,
          isRunning: !isSettled(status),
        })),
        next: page.pagination.next ?? undefined,
      };
    },

    async extend(ref, byMs) {
      const inside = await enter(ref);
      await inside.call("extend the sandbox", (session, signal) => session.extendTimeout(byMs, { signal }));
    },

    async remove(name, { keepSnapshots } = { keepSnapshots: false }) {
      const sandbox = await lookUp(name);
      if (!sandbox) return;
      calls.forget(sandbox.currentSession().sessionId);
      try {
        await call("delete the sandbox", (signal) =>
          sandbox.delete({ deleteOrphanSnapshots: !keepSnapshots, signal }),
        );
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error;
        if (error.kind !== "gone" && error.kind !== "stopped") throw error;
        if (await calls.lookAgain(name)) throw confirmedAs("transient", error);
      }
    },
  };
}

/** Whether a sandbox stopped without anything to resume it from. */
function hasEnded({ status, persistent, currentSnapshotId }: Sandbox): boolean {
  return isSettled(status) && !(persistent && currentSnapshotId);
}

/** The SDK repeats a create whose answer was lost. The second call then fails because the name is taken. */
function isNameTaken(error: ProviderError): boolean {
  const status = statusOf(error);
  return status === 400 || status === 409;
}

/** The sandbox that an earlier call of the same create made. Without one, the provider refused for another reason. */
async function adopt(
  { lookAgain }: Calls,
  name: string,
  tags: Record<string, string>,
  refusal: ProviderError,
): Promise<Sandbox> {
  const sandbox = await lookAgain(name);
  const isOurs = sandbox && Object.entries(tags).every(([tag, value]) => sandbox.tags?.[tag] === value);
  if (!isOurs || isSettled(sandbox.status)) throw refusal;
  if (sandbox.status !== "running") throw confirmedAs("transient", refusal);
  return sandbox;
}

/** A create that answers "not found" can only mean its snapshot. A lookup of the snapshot confirms it. */
async function confirmSnapshot(
  { common, call }: Calls,
  snapshotId: string | undefined,
  error: ProviderError,
): Promise<ProviderError> {
  if (error.kind !== "gone" && error.kind !== "stopped") return error;
  if (snapshotId === undefined) return withoutClaim(error);
  try {
    const look = (signal: AbortSignal) => Snapshot.get({ ...common, snapshotId, signal });
    const { status } = await call("look up the snapshot", look, { timeoutMs: probeTimeoutMs });
    return confirmedAs(status === "created" ? "transient" : "gone", error);
  } catch (failure) {
    if (!(failure instanceof ProviderError)) throw failure;
    return confirmedAs(failure.kind === "gone" ? "gone" : "transient", error);
  }
}

/** A call that names no sandbox cannot report one as gone or stopped, so such an answer counts as a refusal. */
function withoutClaim(error: ProviderError): ProviderError {
  return error.kind === "gone" || error.kind === "stopped" ? confirmedAs("refused", error) : error;
}

async function askLaunch(inside: InSession, commandId: string | undefined): Promise<RunnerReport["launch"]> {
  if (commandId === undefined) return "unknown";
  const launched = await inside.find("look at the launch", (session, signal) =>
    session.getCommand(commandId, { signal }),
  );
  // A barred launch started nothing, so it says nothing about the runner.
  if (!launched || isBarred(launched.exitCode)) return "unknown";
  return launched.exitCode === null ? "running" : "exited";
}

/**
 * The launch's start time, from its first output, which it wrote before there was an agent. Undefined if the provider
 * does not know the command, or if another launch of the turn came first. Throws `transient` if the log was cut off.
 */
async function readStartTime(inside: InSession, commandId: string): Promise<string | undefined> {
  const look = () =>
    inside.find("look at the launch", (session, signal) => session.getCommand(commandId, { signal }), {
      timeoutMs: sweepTimeoutMs,
    });
  const command = await look();
  if (!command) return undefined;
  const output = await inside.call(
    "read the start time of the launch",
    async (_session, signal) => {
      using logs = command.logs({ signal });
      let text = "";
      for await (const { stream, data } of logs) {
        if (stream === "stdout") text += data;
        if (text.includes("\n")) break;
      }
      return text;
    },
    { timeoutMs: sweepTimeoutMs },
  );
  const since = readLaunchTime(output);
  if (since !== undefined) return since;
  if (isBarred((await look())?.exitCode)) return undefined;
  throw new ProviderError("transient", "The provider did not return the start time of the launch.");
}
