import { limits, type Provider, ProviderError, type RunnerReport } from "@concierge/core";
import { fromWorkingDirectory } from "@concierge/core/verbs";
import { type NetworkPolicyRule, Sandbox, Snapshot } from "@vercel/sandbox";
import { type Calls, createCalls, type InSession, isSettled, probeTimeoutMs } from "./calls.ts";
import { confirmedAs, isSnapshotMissing, statusOf } from "./errors.ts";
import { execute } from "./execute.ts";
import { readRunnerState } from "./runner-state.ts";
import { isBarred, launchScript, readSince, sweepResults, sweepScript } from "./sweep.ts";
import type { ProviderOptions } from "./vercel.ts";

const createTimeoutMs = 60_000;
/** What a sandbox kept when its time was over goes when nobody has come back to it for so long. */
const keptStoppedMs = 7 * 24 * 60 * 60_000;
/** A sweep that another killed is made again; one that is killed each time is being fought. */
const sweepTries = 3;
const sweepTimeoutMs = 5_000;

/**
 * Vercel's sandboxes. All use goes through `Session`, whose methods never resume a stopped sandbox; `Sandbox`'s own
 * do, and a late call of theirs would undo a stop.
 */
export function createSdkProvider(options: ProviderOptions): Provider {
  const calls = createCalls(options);
  const { common, call, enter, lookUp, remember } = calls;

  const probe: Provider["probe"] = async (name) => {
    const sandbox = await lookUp(name, probeTimeoutMs);
    if (!sandbox) return { health: "gone" };
    const { status } = sandbox.currentSession();
    if (status === "running") return { health: "healthy", sandbox: remember(sandbox) };
    // In the middle of its start or its stop it is neither. The caller asks again.
    if (!isSettled(status)) throw new ProviderError("transient", `The sandbox ${name} is ${status}.`);
    return { health: hasEnded(sandbox) ? "gone" : "resumable" };
  };

  return {
    probe,

    async create({ name, tags, timeoutMs, snapshotId }) {
      const given = {
        ...common,
        name,
        tags,
        timeout: timeoutMs,
        resources: { vcpus: limits.sandboxVcpus },
        // Kept when its time is over, so that it can be resumed; what is given up is deleted with all it kept.
        persistent: true,
        keepLastSnapshots: { count: 1 },
        snapshotExpiration: keptStoppedMs,
      };
      const create = (signal: AbortSignal) =>
        snapshotId === undefined
          ? Sandbox.create({ ...given, runtime: "node24", signal })
          : Sandbox.create({ ...given, source: { type: "snapshot", snapshotId }, signal });
      try {
        return remember(await call("create a sandbox", create, { timeoutMs: createTimeoutMs }));
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error;
        if (isTaken(error)) return remember(await adopt(calls, name, tags, error));
        throw await confirmedSnapshot(calls, snapshotId, error);
      }
    },

    async resume(name) {
      const resume = (signal: AbortSignal) => Sandbox.get({ ...common, name, resume: true, signal });
      try {
        return remember(await call("resume the sandbox", resume, { timeoutMs: createTimeoutMs }));
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error;
        if (isSnapshotMissing(error)) throw confirmedAs("gone", error);
        if (error.kind !== "stopped") throw error;
        // "Stopped" is no answer to a resume, unless there is nothing left to resume.
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
          const snapshot = await Snapshot.get({ ...common, snapshotId, signal });
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

    async guardNetwork(ref, { allow, inject }) {
      // The local API takes a policy and does not keep to it.
      if (options.baseUrl !== undefined) return "open";
      const inside = await enter(ref);
      const rules = allow.map((host): [string, NetworkPolicyRule[]] => {
        const headers = inject[host];
        return [host, headers ? [{ transform: [{ headers: { ...headers } }] }] : []];
      });
      const networkPolicy = { allow: Object.fromEntries(rules) };
      await inside.call("guard the network", (session, signal) =>
        session.update({ networkPolicy }, { signal }),
      );
      return "guarded";
    },

    async launch(ref, runDir, env) {
      const inside = await enter(ref);
      const where = fromWorkingDirectory(runDir);
      const args = ["-c", launchScript, "sh", where, "node", `${where}/runner.mjs`];
      const command = await inside.call("launch the runner", (session, signal) =>
        session.runCommand({ cmd: "sh", args, env, detached: true, signal }),
      );
      return command.cmdId;
    },

    async sweep(ref, runDir, { commandId, evenIfSuperseded = false } = {}) {
      const inside = await enter(ref);
      const since = commandId === undefined ? undefined : await launchedAt(inside, commandId);
      const args = [
        "-c",
        sweepScript,
        "sh",
        fromWorkingDirectory(runDir),
        since ?? "",
        ...(evenIfSuperseded ? ["yes"] : []),
      ];
      for (let tries = 0; tries < sweepTries; tries++) {
        const { exitCode } = await inside.call(
          "sweep the sandbox",
          (session, signal) => session.runCommand({ cmd: "sh", args, sudo: true, signal }),
          { timeoutMs: sweepTimeoutMs },
        );
        const result = sweepResults.get(exitCode);
        if (result) return result;
      }
      throw new ProviderError("transient", `No sweep of ${ref.name} got to say what it found.`);
    },

    async ask(ref, runDir, commandId) {
      const inside = await enter(ref);
      const launch = await askLaunch(inside, commandId);
      const file = await inside.call("read the runner's state", (session, signal) =>
        session.readFileToBuffer({ path: `${runDir}/state.json` }, { signal }),
      );
      // The SDK makes every 404 of a read a missing file. It may be the session that is missing.
      if (!file && commandId === undefined) await calls.assertThere(ref);
      return { launch, state: file ? readRunnerState(file.toString("utf8")) : undefined };
    },

    async list({ stage }, cursor) {
      const list = (signal: AbortSignal) =>
        Sandbox.list({ ...common, tags: { stage }, limit: 50, ...(cursor && { cursor }), signal });
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

/** The SDK repeats a create whose answer was lost. The second is then told that the name is taken. */
function isTaken(error: ProviderError): boolean {
  const status = statusOf(error);
  return status === 400 || status === 409;
}

/** The sandbox that an earlier try of the same create made. If there is none, the provider refused for another reason. */
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

/** A create that says "not found" can only mean its snapshot; and only a look-up of that says whether it is true. */
async function confirmedSnapshot(
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

/** For a call that names no sandbox: it cannot say that one is gone or stopped, so it is a refusal like any other. */
function withoutClaim(error: ProviderError): ProviderError {
  return error.kind === "gone" || error.kind === "stopped" ? confirmedAs("refused", error) : error;
}

async function askLaunch(inside: InSession, commandId: string | undefined): Promise<RunnerReport["launch"]> {
  if (commandId === undefined) return "unknown";
  const launched = await inside.find("look at the launch", (session, signal) =>
    session.getCommand(commandId, { signal }),
  );
  // A launch that came second started nothing: it says nothing about the runner of the first.
  if (!launched || isBarred(launched.exitCode)) return "unknown";
  return launched.exitCode === null ? "running" : "exited";
}

/**
 * When a launch began, from what it said first, before there was an agent. Undefined if the provider does not know the
 * command, or if another launch of the turn came first. A log that was cut off is neither: then nothing is known.
 */
async function launchedAt(inside: InSession, commandId: string): Promise<string | undefined> {
  const look = () =>
    inside.find("look at the launch", (session, signal) => session.getCommand(commandId, { signal }), {
      timeoutMs: sweepTimeoutMs,
    });
  const command = await look();
  if (!command) return undefined;
  const said = await inside.call(
    "read when the launch began",
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
  const since = readSince(said);
  if (since !== undefined) return since;
  if (isBarred((await look())?.exitCode)) return undefined;
  throw new ProviderError("transient", "The provider did not say when the launch began.");
}
