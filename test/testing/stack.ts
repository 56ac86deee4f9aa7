import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type LocalStackOptions, startLocalStack } from "@concierge/dev";
import { createVercelProvider } from "@concierge/provider-vercel";
import { topology } from "../../infra/topology.ts";
import { BUNDLES } from "./bundles.ts";
import { type Client, createClient } from "./client.ts";

/**
 * Concierge as `npm run dev -- --bundled` runs it, with its own data directory. A call that a function's grants do not
 * allow fails the test at the end, even if the function hid the error.
 */
export async function startConcierge(
  options: Partial<LocalStackOptions> = {},
  { mayBeRefused = false } = {},
) {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), "concierge-e2e-")));
  const log: string[] = [];
  const bundles = process.env[BUNDLES];
  const stack = await startLocalStack({
    topology,
    dataDir,
    ...(bundles && bundles !== "none" && { bundles }),
    ...options,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, CONCIERGE_DEV_CONTROL: "true", ...options.env },
    onLog: (line) => log.push(line),
  });
  const client: Client = createClient(stack);

  return {
    ...stack,
    client,
    /** The real SDK, to check what really exists. */
    provider: createVercelProvider({
      token: stack.sandboxToken,
      teamId: "local",
      projectId: "local",
      baseUrl: stack.endpoints.sandbox,
    }),
    dataDir,
    log,
    /** Kills a function's processes as if their machine died. */
    kill(name: string): void {
      const victims = stack.processes().filter((process) => process.name.startsWith(name));
      if (victims.length === 0) throw new Error(`no process is called ${name}`);
      for (const { pid } of victims) process.kill(pid, "SIGKILL");
    },
    /** Calls the sandbox API's control routes: faults, latencies, counts. */
    async control(method: string, path: string, body?: unknown): Promise<Response> {
      const response = await fetch(`${stack.endpoints.sandbox}/_control${path}`, {
        method,
        headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      if (!response.ok)
        throw new Error(`control ${method} ${path} answered ${response.status}: ${await response.text()}`);
      return response;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await stack.close();
      if (!options.dataDir) await rm(dataDir, { recursive: true, force: true });
      const refused = log.filter((line) => line.includes(" refused: "));
      if (!mayBeRefused && refused.length > 0) throw new Error(refused.join("\n"));
    },
  };
}

export type Concierge = Awaited<ReturnType<typeof startConcierge>>;
