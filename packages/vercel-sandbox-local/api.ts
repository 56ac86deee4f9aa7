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
import { writeSeccompFilter } from "./isolation/seccomp.ts";
import { openNetwork } from "./network/settings.ts";
import { type ResolvedOptions, resolveOptions, type SandboxApiOptions } from "./options.ts";
import { recover, stopAll } from "./sandbox/lifecycle.ts";
import { openStore } from "./sandbox/store.ts";
import { createWorld } from "./sandbox/world.ts";

export interface SandboxApi {
  /** Without a path, for example `http://127.0.0.1:4321`. */
  url: string;
  /** A bearer token that it accepts. */
  token: string;
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
  const filterFile = path.join(store.dataDir, "seccomp.bpf");
  if (isolation === "bwrap") prepareEtc(etcDir);
  const seccomp = isolation === "bwrap" && writeSeccompFilter(filterFile) ? filterFile : undefined;
  let port = 0;
  const network = isolation === "bwrap" ? openNetwork(store.dataDir, options, () => port) : undefined;
  const latency = { ...options.latency };
  const world = createWorld({ options, isolation, etcDir, seccomp, network, latency, store });
  const faults = createFaults();
  const schemas = requestSchemas(options.limits);
  const server = createHttpServer({
    world,
    faults,
    // Session routes first: `sessions` and `snapshots` would also match as sandbox names.
    routes: [...sessionRoutes(world, schemas), ...sandboxRoutes(world, schemas)],
    control: controlRoutes(world, faults),
    sandboxOfSession: (id) => store.sandboxes.get(store.sessions.get(id)?.sandboxId ?? "")?.name,
  });
  try {
    await recover(world);
    await listen(server, options);
    ({ port } = server.address() as AddressInfo);
  } catch (error) {
    await store.close();
    throw error;
  }
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;

  world.url = `http://${host}:${port}`;

  let closing: Promise<void> | undefined;
  async function shutDown(): Promise<void> {
    // Close connections first. A request that arrives later could start a sandbox that `stopAll` does not see.
    server.close();
    server.closeAllConnections();
    await stopAll(world);
    network?.close();
    await store.close();
  }
  const close = () => {
    closing ??= shutDown();
    return closing;
  };
  const [token = ""] = options.tokens;
  return { url: world.url, token, isolation, close, [Symbol.asyncDispose]: close };
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
    throw new Error("bubblewrap or iproute2 is not installed, or user namespaces are not allowed");
  const warning =
    "NOT ISOLATED: sandboxes are plain processes that can reach this machine's files and network, and each other";
  process.stderr.write(`vercel-sandbox-local: ${warning}\n`);
  onLog(warning);
  return "none";
}
