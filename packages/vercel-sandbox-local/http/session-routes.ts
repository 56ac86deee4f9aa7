import {
  commandLogs,
  commandRecord,
  killCommand,
  type LiveCommand,
  liveLogs,
  runCommand,
  waitForCommand,
} from "../sandbox/commands.ts";
import { makeDirectory, readFile, writeFiles } from "../sandbox/files.ts";
import { extendTimeout, snapshotSession, stopSession } from "../sandbox/lifecycle.ts";
import type { SessionRecord } from "../sandbox/records.ts";
import { assertFits, snapshotById } from "../sandbox/snapshots.ts";
import { runningSession, sessionById, type World } from "../sandbox/world.ts";
import { ApiError } from "./errors.ts";
import { reportedPolicy } from "./network-policy.ts";
import { paginate } from "./paging.ts";
import type { RequestSchemas } from "./requests.ts";
import { type Call, ok, type Reply, type Route } from "./routing.ts";
import { commandBody, routeBodies, sandboxBody, sessionBody, snapshotBody } from "./wire.ts";

const ndjson = "application/x-ndjson";

export function sessionRoutes(world: World, schemas: RequestSchemas): Route[] {
  const { store } = world;
  const base = "/v2/sandboxes/sessions";
  const sandboxOf = (session: SessionRecord) => store.sandboxes.get(session.sandboxId);

  function route(
    name: string,
    method: string,
    path: string,
    handle: (call: Call, id: string) => Promise<Reply>,
  ) {
    return { name, method, path, handle: (call: Call) => handle(call, call.params[0] ?? "") };
  }

  return [
    route("listSessions", "GET", base, async (call) => {
      const [project, name] = [call.query.get("project") ?? "", call.query.get("name")];
      const wanted = [...store.sessions.values()].filter((session) => {
        const sandbox = sandboxOf(session);
        return sandbox?.projectId === project && (name === null || sandbox.name === name);
      });
      const page = schemas.page.parse(Object.fromEntries(call.query));
      const { items, pagination } = paginate(wanted, page, (session) => session.createdAt);
      return ok({ sessions: items.map(sessionBody), pagination });
    }),

    route("getSession", "GET", `${base}/:id`, async (_call, id) => {
      const session = sessionById(world, id);
      const sandbox = sandboxOf(session);
      return ok({ session: sessionBody(session), routes: sandbox ? routeBodies(world, sandbox) : [] });
    }),

    route("stopSession", "POST", `${base}/:id/stop`, async (_call, id) => {
      const session = await stopSession(world, id);
      const sandbox = sandboxOf(session);
      const snapshot = [...store.snapshots.values()].find((taken) => taken.sourceSessionId === id);
      return ok({
        session: sessionBody(session),
        sandbox: sandbox && sandboxBody(sandbox, sessionById(world, sandbox.currentSessionId)),
        snapshot: snapshot && snapshotBody(snapshot),
      });
    }),

    route("extendTimeout", "POST", `${base}/:id/extend-timeout`, async (call, id) => {
      const { duration } = await call.json(schemas.extend);
      runningSession(world, id);
      const session = sessionById(world, id);
      extendTimeout(world, session, duration);
      return ok({ session: sessionBody(session) });
    }),

    route("createSnapshot", "POST", `${base}/:id/snapshot`, async (call, id) => {
      const { expiration } = await call.json(schemas.snapshot);
      runningSession(world, id);
      await assertFits(world, id);
      const snapshotId = await snapshotSession(world, id, { expirationMs: expiration });
      const session = sessionById(world, id);
      return ok({ snapshot: snapshotBody(snapshotById(world, snapshotId)), session: sessionBody(session) });
    }),

    route("updateNetworkPolicy", "POST", `${base}/:id/network-policy`, async (call, id) => {
      const policy = await call.json(schemas.policy);
      const { gateway, machine } = runningSession(world, id);
      // Without isolation nothing enforces it. The caller must not rely on it.
      if (!gateway) throw new ApiError("not_supported", "Network policies need isolation.");
      gateway.setPolicy(policy);
      machine.forwardNewPorts();
      const session = sessionById(world, id);
      session.networkPolicy = reportedPolicy(policy);
      session.updatedAt = Date.now();
      store.saveSession(session);
      return ok({ session: sessionBody(session) });
    }),

    route("runCommand", "POST", `${base}/:id/cmd`, async (call, id) => {
      const { wait, logs, timeout, ...request } = await call.json(schemas.command);
      const live = await runCommand(world, id, { ...request, timeoutMs: timeout });
      if (!wait) return ok({ command: commandBody(live.record) });
      return { status: 200, contentType: ndjson, stream: waited(live, logs, call.signal) };
    }),

    route("getCommand", "GET", `${base}/:id/cmd/:command`, async (call, id) => {
      const command = call.params[1] ?? "";
      const waits = call.query.get("wait") === "true";
      const record = waits
        ? await waitForCommand(world, id, command, call.signal)
        : commandRecord(world, id, command);
      return ok({ command: commandBody(record) });
    }),

    route("getLogs", "GET", `${base}/:id/cmd/:command/logs`, async (call, id) => {
      const command = call.params[1] ?? "";
      sessionById(world, id);
      if (!store.commands(id).read(command)) throw new ApiError("not_found", "Command not found.");
      return { status: 200, contentType: ndjson, stream: commandLogs(world, id, command, call.signal) };
    }),

    route("killCommand", "POST", `${base}/:id/cmd/:command/kill`, async (call, id) => {
      const { signal } = await call.json(schemas.kill);
      return ok({ command: commandBody(await killCommand(world, id, call.params[1] ?? "", signal)) });
    }),

    route("makeDirectory", "POST", `${base}/:id/fs/mkdir`, async (call, id) => {
      await makeDirectory(world, id, await call.json(schemas.mkdir));
      return ok({});
    }),

    route("readFile", "POST", `${base}/:id/fs/read`, async (call, id) => {
      const stream = await readFile(world, id, await call.json(schemas.read));
      if (!stream) throw new ApiError("not_found", "File not found.");
      return { status: 200, contentType: "application/octet-stream", stream };
    }),

    route("writeFiles", "POST", `${base}/:id/fs/write`, async (call, id) => {
      await writeFiles(world, id, call.body, call.header("x-cwd") ?? "");
      return ok({});
    }),

    route("openInteractive", "POST", `${base}/:id/interactive`, async () => {
      throw new ApiError("not_supported", "Interactive sessions are not supported locally.");
    }),
  ];
}

async function* waited(
  live: LiveCommand,
  logs: boolean,
  signal: AbortSignal,
): AsyncGenerator<Buffer | string> {
  yield commandLine(live);
  if (logs) yield* liveLogs(live, signal);
  await live.done;
  if (live.record.exitCode !== null) yield commandLine(live);
}

function commandLine(live: LiveCommand): string {
  return `${JSON.stringify({ command: commandBody(live.record) })}\n`;
}
