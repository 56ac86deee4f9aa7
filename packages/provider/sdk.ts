import { type LiveSandbox, limits, type Provider, ProviderError, type SandboxRef } from "@concierge/core";
import { fromWorkingDirectory } from "@concierge/core/verbs";
import { type NetworkPolicyRule, Sandbox, type Session, Snapshot } from "@vercel/sandbox";
import { classified } from "./errors.ts";
import { execute } from "./execute.ts";
import { readRunnerState } from "./runner-state.ts";
import { launchScript, readSince, sweepResults, sweepScript } from "./sweep.ts";
import { vercelApi } from "./tell.ts";
import type { ProviderOptions } from "./vercel.ts";

const createTimeoutMs = 60_000;
const callTimeoutMs = 30_000;
const probeTimeoutMs = 10_000;
/** What a sandbox kept when its time was over goes when nobody has come back to it for so long. */
const keptStoppedMs = 7 * 24 * 60 * 60_000;
const settled: ReadonlySet<string> = new Set(["stopped", "failed", "aborted"]);
const sessionsKept = 500;
/** A sweep that another killed is made again; one that is killed each time is being fought. */
const sweepTries = 3;
const sweepTimeoutMs = 5_000;

/**
 * Vercel's sandboxes. All use goes through `Session`, whose methods never resume a stopped sandbox; `Sandbox`'s own
 * do, and a late call of theirs would undo a stop.
 */
export function createSdkProvider({ baseUrl, ...credentials }: ProviderOptions): Provider {
  const common = { ...credentials, ...(baseUrl && { fetch: fetchFrom(baseUrl) }) };
  const sessions = new Map<string, Session>();

  const remember = (sandbox: Sandbox): LiveSandbox => {
    const session = sandbox.currentSession();
    sessions.set(session.sessionId, session);
    for (const oldest of sessions.keys()) {
      if (sessions.size <= sessionsKept) break;
      sessions.delete(oldest);
    }
    const startedAt = (session.startedAt ?? session.createdAt).getTime();
    return {
      name: sandbox.name,
      sessionId: session.sessionId,
      startedAt,
      expiresAt: startedAt + session.timeout,
    };
  };

  const lookUp = async (name: string, timeoutMs = callTimeoutMs): Promise<Sandbox | undefined> => {
    try {
      return await classified("look up the sandbox", () =>
        Sandbox.get({ ...common, name, resume: false, signal: AbortSignal.timeout(timeoutMs) }),
      );
    } catch (error) {
      if (error instanceof ProviderError && error.kind === "gone") return undefined;
      throw error;
    }
  };

  const sessionOf = async ({ name, sessionId }: SandboxRef): Promise<Session> => {
    const known = sessions.get(sessionId);
    if (known) return known;
    const sandbox = await lookUp(name);
    const session =
      sandbox && remember(sandbox).sessionId === sessionId ? sessions.get(sessionId) : undefined;
    if (!session) throw new ProviderError("gone", `The sandbox ${name} is not the one it was.`);
    return session;
  };

  return {
    async create({ name, tags, timeoutMs, snapshotId }) {
      const options = {
        ...common,
        name,
        tags,
        timeout: timeoutMs,
        resources: { vcpus: limits.sandboxVcpus },
        // Kept when its time is over, so that it can be resumed; what is given up is deleted with all it kept.
        persistent: true,
        keepLastSnapshots: { count: 1 },
        snapshotExpiration: keptStoppedMs,
        signal: AbortSignal.timeout(createTimeoutMs),
      };
      const sandbox = await classified("create a sandbox", () =>
        snapshotId === undefined
          ? Sandbox.create({ ...options, runtime: "node24" })
          : Sandbox.create({ ...options, source: { type: "snapshot", snapshotId } }),
      );
      return remember(sandbox);
    },

    async probe(name) {
      const sandbox = await lookUp(name, probeTimeoutMs);
      if (!sandbox) return { health: "gone" };
      const { status } = sandbox.currentSession();
      if (status === "running") return { health: "healthy", sandbox: remember(sandbox) };
      // In the middle of its start or its stop it is neither: whoever asks again will know.
      if (!settled.has(status)) throw new ProviderError("transient", `The sandbox ${name} is ${status}.`);
      return { health: sandbox.persistent && sandbox.currentSnapshotId ? "resumable" : "gone" };
    },

    async resume(name) {
      const sandbox = await classified("resume the sandbox", () =>
        Sandbox.get({ ...common, name, resume: true, signal: AbortSignal.timeout(createTimeoutMs) }),
      );
      return remember(sandbox);
    },

    async snapshot(ref, keepMs) {
      const session = await sessionOf(ref);
      const signal = AbortSignal.timeout(createTimeoutMs);
      const { snapshotId } = await classified("take a snapshot", () =>
        session.snapshot({ expiration: keepMs, signal }),
      );
      return snapshotId;
    },

    async deleteSnapshot(snapshotId) {
      const signal = AbortSignal.timeout(callTimeoutMs);
      try {
        await classified("delete the snapshot", async () => {
          const snapshot = await Snapshot.get({ ...common, snapshotId, signal });
          await snapshot.delete({ signal });
        });
      } catch (error) {
        if (!(error instanceof ProviderError && error.kind === "gone")) throw error;
      }
    },

    async exec(ref, execution) {
      return await execute(await sessionOf(ref), execution);
    },

    async writeFiles(ref, files) {
      const session = await sessionOf(ref);
      await classified("write files", () =>
        session.writeFiles([...files], { signal: AbortSignal.timeout(callTimeoutMs) }),
      );
    },

    async guardNetwork(ref, { allow, inject }) {
      // The local API takes a policy and does not keep to it.
      if (baseUrl !== undefined) return "open";
      const session = await sessionOf(ref);
      const rules = allow.map((host): [string, NetworkPolicyRule[]] => {
        const headers = inject[host];
        return [host, headers ? [{ transform: [{ headers: { ...headers } }] }] : []];
      });
      const networkPolicy = { allow: Object.fromEntries(rules) };
      await classified("guard the network", () =>
        session.update({ networkPolicy }, { signal: AbortSignal.timeout(callTimeoutMs) }),
      );
      return "guarded";
    },

    async launch(ref, runDir, env) {
      const session = await sessionOf(ref);
      const where = fromWorkingDirectory(runDir);
      const args = ["-c", launchScript, "sh", where, "node", `${where}/runner.mjs`];
      const signal = AbortSignal.timeout(callTimeoutMs);
      const command = await classified("launch the runner", () =>
        session.runCommand({ cmd: "sh", args, env, detached: true, signal }),
      );
      return command.cmdId;
    },

    async sweep(ref, runDir, { commandId, evenIfSuperseded = false } = {}) {
      const session = await sessionOf(ref);
      const since = commandId === undefined ? undefined : await launchedAt(session, commandId);
      const args = [
        "-c",
        sweepScript,
        "sh",
        fromWorkingDirectory(runDir),
        since ?? "",
        ...(evenIfSuperseded ? ["yes"] : []),
      ];
      for (let tries = 0; tries < sweepTries; tries++) {
        const signal = AbortSignal.timeout(sweepTimeoutMs);
        const { exitCode } = await classified("sweep the sandbox", () =>
          session.runCommand({ cmd: "sh", args, sudo: true, signal }),
        );
        const result = sweepResults.get(exitCode);
        if (result) return result;
      }
      return "alive";
    },

    async ask(ref, runDir) {
      const session = await sessionOf(ref);
      const file = await classified("ask the runner", () =>
        session.readFileToBuffer(
          { path: `${runDir}/state.json` },
          { signal: AbortSignal.timeout(callTimeoutMs) },
        ),
      );
      return file ? readRunnerState(file.toString("utf8")) : undefined;
    },

    async list({ stage }, cursor) {
      const page = await classified("list the sandboxes", () =>
        Sandbox.list({
          ...common,
          tags: { stage },
          limit: 50,
          ...(cursor && { cursor }),
          signal: AbortSignal.timeout(callTimeoutMs),
        }),
      );
      return {
        items: page.sandboxes.map(({ name, createdAt, status, tags = {} }) => ({
          name,
          createdAt,
          tags,
          isRunning: !settled.has(status),
        })),
        next: page.pagination.next ?? undefined,
      };
    },

    async extend(ref, byMs) {
      const session = await sessionOf(ref);
      await classified("extend the sandbox", () =>
        session.extendTimeout(byMs, { signal: AbortSignal.timeout(callTimeoutMs) }),
      );
    },

    async remove(name, { keepSnapshots } = { keepSnapshots: false }) {
      const sandbox = await lookUp(name);
      if (!sandbox) return;
      sessions.delete(sandbox.currentSession().sessionId);
      await classified("delete the sandbox", () =>
        sandbox.delete({
          deleteOrphanSnapshots: !keepSnapshots,
          signal: AbortSignal.timeout(callTimeoutMs),
        }),
      ).catch((error: unknown) => {
        if (!(error instanceof ProviderError && error.kind === "gone")) throw error;
      });
    },
  };
}

/** By what the launch said first, before there was an agent. Nothing where another launch of the turn had come first. */
async function launchedAt(session: Session, commandId: string): Promise<string | undefined> {
  const signal = AbortSignal.timeout(sweepTimeoutMs);
  try {
    return await classified("read when the launch began", async () => {
      using logs = (await session.getCommand(commandId, { signal })).logs({ signal });
      let said = "";
      for await (const { stream, data } of logs) {
        if (stream === "stdout") said += data;
        if (said.includes("\n")) break;
      }
      return readSince(said);
    });
  } catch (error) {
    // Of the command: where it is the sandbox that is gone, the sweep will say so.
    if (error instanceof ProviderError && error.kind === "gone") return undefined;
    throw error;
  }
}

/** Sends the SDK's calls to another address, with all that goes with them. */
function fetchFrom(baseUrl: string): typeof fetch {
  return (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    return fetch(url.replace(vercelApi, `${baseUrl}/api`), init);
  };
}
