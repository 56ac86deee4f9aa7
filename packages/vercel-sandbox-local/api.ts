import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { controlRoutes } from "./http/control.ts";
import { createFaults } from "./http/faults.ts";
import { requestSchemas } from "./http/requests.ts";
import { sandboxRoutes } from "./http/sandbox-routes.ts";
import { createHttpServer } from "./http/server.ts";
import { sessionRoutes } from "./http/session-routes.ts";
import { bwrapWorks } from "./isolation/bwrap.ts";
import { prepareEtc } from "./isolation/etc.ts";
import type { Isolation } from "./isolation/machine.ts";
import { type ResolvedOptions, resolveOptions, type SandboxApiOptions } from "./options.ts";
import { recover, stopAll } from "./sandbox/lifecycle.ts";
import { openStore } from "./sandbox/store.ts";
import { createWorld } from "./sandbox/world.ts";

export interface SandboxApi {
  /** Without a path, for example `http://127.0.0.1:4321`. */
  url: string;
  isolation: Isolation;
  /** Stops all sandboxes, snapshots the persistent ones, and frees the port. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Starts Vercel's Sandbox API on loopback. */
export async function startSandboxApi(given: SandboxApiOptions): Promise<SandboxApi> {
  const options = resolveOptions(given);
  const isolation = chooseIsolation(options);
  const store = await openStore(options.dataDir, options.onLog);
  const etcDir = path.join(store.dataDir, "etc");
  if (isolation === "bwrap") prepareEtc(etcDir);
  const world = createWorld({ options, isolation, etcDir, latency: { ...options.latency }, store });
  const faults = createFaults();
  const schemas = requestSchemas(options.limits);
  const server = createHttpServer({
    options,
    faults,
    // Session routes first: `sessions` and `snapshots` would also match as sandbox names.
    routes: [...sessionRoutes(world, schemas), ...sandboxRoutes(world, schemas)],
    control: controlRoutes(world, faults),
    sandboxOfSession: (id) => store.sandboxes.get(store.sessions.get(id)?.sandboxId ?? "")?.name,
  });
  try {
    await recover(world);
    await listen(server, options);
  } catch (error) {
    await store.close();
    throw error;
  }
  const { port } = server.address() as AddressInfo;
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;

  let closing: Promise<void> | undefined;
  async function shutDown(): Promise<void> {
    // Close connections first. A request that arrives later could start a sandbox that `stopAll` does not see.
    server.close();
    server.closeAllConnections();
    await stopAll(world);
    await store.close();
  }
  const close = () => {
    closing ??= shutDown();
    return closing;
  };
  return { url: `http://${host}:${port}`, isolation, close, [Symbol.asyncDispose]: close };
}

function listen(server: Server, { port, host }: ResolvedOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
}

function chooseIsolation({ isolation, onLog }: ResolvedOptions): Isolation {
  if (isolation !== "none" && bwrapWorks()) return "bwrap";
  if (isolation === "bwrap")
    throw new Error("bubblewrap is not installed, or user namespaces are not allowed");
  const warning = "NOT ISOLATED: sandboxes are plain processes that can reach this machine's files";
  process.stderr.write(`vercel-sandbox-local: ${warning}\n`);
  onLog(warning);
  return "none";
}
