import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { repositoryRoot } from "@concierge/bundler";
import { packPackages } from "@concierge/bundler/packages";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Concierge, startConcierge } from "../testing/stack.ts";

const run = promisify(execFile);
let directory: string;
let concierge: Concierge;
/** The Node versions that the packages support, by their programs. */
const nodes: Record<string, string> = { "Node 24": process.execPath };
const versions = ["Node 22", "Node 24"] as const;
const node22 = "22.23.3";

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "concierge-packages-"));
  const tarballs = await packPackages(join(directory, "tarballs"));
  await write("package.json", JSON.stringify({ private: true, type: "module" }));
  const quiet = ["--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"];
  await run("npm", ["install", ...quiet, ...Object.values(tarballs), "@vercel/sandbox@3.5.0"], {
    cwd: directory,
  });
  const platform = `node-linux-${process.arch}`;
  await run("npm", ["install", ...quiet, "--prefix", join(directory, "node22"), `${platform}@${node22}`]);
  nodes["Node 22"] = join(directory, "node22/node_modules", platform, "bin/node");
  concierge = await startConcierge({ reapEveryMs: 3_600_000 });
}, 300_000);

afterAll(async () => {
  await concierge[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const environment = () => ({
  PATH: process.env.PATH,
  HOME: directory,
  CONCIERGE_URL: concierge.url,
  CONCIERGE_API_KEY: concierge.apiKey,
});

describe.each(versions)("a project on %s that installed the packages from tarballs", (version) => {
  const node = () => nodes[version] ?? "";

  test("runs on that version", async () => {
    const { stdout } = await run(node(), ["--version"]);
    expect(stdout).toContain(`v${version.slice("Node ".length)}.`);
  });

  test("uses @concierge/client as its README says", async () => {
    await write(
      "client.js",
      `import { ConciergeError, createClient } from "@concierge/client";
      const concierge = createClient({ url: process.env.CONCIERGE_URL, apiKey: process.env.CONCIERGE_API_KEY });
      const { id } = await concierge.start({ prompt: "echo hello", agent: "shell", sessionKey: "packed" });
      for await (const event of concierge.events(id)) if (event.type === "output") console.log(event.text.trim());
      console.log((await concierge.wait(id)).status);
      await concierge.get("task_none").catch((error) => console.log(error instanceof ConciergeError && error.code));`,
    );
    const { stdout } = await run(node(), ["client.js"], { cwd: directory, env: environment() });
    expect(stdout).toBe("hello\nsucceeded\nnot_found\n");
  });

  test("runs the concierge command, and its MCP bridge", async () => {
    const bin = join(directory, "node_modules/.bin/concierge");
    const cli = (...args: string[]) => run(node(), [bin, ...args], { cwd: directory, env: environment() });
    expect((await cli("--version")).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    const { stdout } = await cli("start", "echo from the command", "--session", "packed", "--watch");
    expect(stdout).toContain("from the command");
    expect(JSON.parse((await cli("metrics", "--json")).stdout).items.length).toBeGreaterThan(20);
    await expect(cli("dev")).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining("Clone") });
    const mcp = spawn(node(), [bin, "mcp"], { env: environment(), stdio: ["pipe", "pipe", "inherit"] });
    const request = { jsonrpc: "2.0", id: 1, method: "tools/list" };
    mcp.stdin.end(`${JSON.stringify(request)}\n`);
    const [line] = await once(createInterface({ input: mcp.stdout }), "line");
    expect(JSON.parse(line).result.tools).toHaveLength(8);
    await once(mcp, "exit");
  });

  test("starts the vercel-sandbox-local command and uses it through the Vercel SDK", async () => {
    await write(
      "use.js",
      `import { Sandbox } from "@vercel/sandbox";
      import { localFetch } from "vercel-sandbox-local";
      const local = { token: process.argv[3], teamId: "team_t", projectId: "prj_t", fetch: localFetch(process.argv[2]) };
      const sandbox = await Sandbox.create({ ...local, persistent: false });
      await sandbox.writeFiles([{ path: "name.txt", content: Buffer.from("sandbox") }]);
      const finished = await sandbox.runCommand("sh", ["-c", "echo hello from the $(cat name.txt)"]);
      process.stdout.write(await finished.stdout());
      await sandbox.stop();`,
    );
    const bin = join(directory, "node_modules/.bin/vercel-sandbox-local");
    const server = spawn(node(), [bin, "--json", "--data-dir", "data"], {
      cwd: directory,
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const [line] = await once(createInterface({ input: server.stdout }), "line");
      const { url, token } = JSON.parse(line);
      const { stdout } = await run(node(), ["use.js", url, token], { cwd: directory });
      expect(stdout).toBe("hello from the sandbox\n");
    } finally {
      server.kill("SIGTERM");
      await once(server, "exit");
    }
  });

  test("imports @concierge/sessions", async () => {
    const script = `import * as sessions from "@concierge/sessions"; console.log(Object.keys(sessions).join());`;
    const { stdout } = await run(node(), ["--input-type=module", "--eval", script], {
      cwd: directory,
    });
    expect(stdout.trim().split(",")).toContain("SandboxSessionManager");
  });

  test("type-checks against the declarations of the packages", async () => {
    await write(
      "consumer.ts",
      `import { type SandboxSession, SandboxSessionManager, type SandboxSessionManagerConfig } from "@concierge/sessions";
      import { type SandboxApi, startSandboxApi } from "vercel-sandbox-local";
      import { type Client, createClient, type Task } from "@concierge/client";
      export const client: Client = createClient({ url: "http://x", apiKey: "k" });
      export const ended = async (id: string): Promise<Task["status"]> => (await client.wait(id)).status;
      // @ts-expect-error: a prompt is required
      export const noPrompt = client.start({});
      export function createManager(config: SandboxSessionManagerConfig): SandboxSessionManager {
        return new SandboxSessionManager(config);
      }
      export const expiryOf = (session: SandboxSession): number => session.expiresAt;
      export const start = (dataDir: string): Promise<SandboxApi> => startSandboxApi({ dataDir, port: 0 });
      // @ts-expect-error: the types are not any
      export const wrong = startSandboxApi({ dataDir: 1 });`,
    );
    const compilerOptions = {
      module: "nodenext",
      target: "es2024",
      lib: ["es2024", "esnext.disposable", "dom", "dom.iterable", "dom.asynciterable"],
      strict: true,
      noEmit: true,
      types: ["node"],
      typeRoots: [join(repositoryRoot, "node_modules/@types")],
    };
    await write("tsconfig.json", JSON.stringify({ compilerOptions, files: ["consumer.ts"] }));
    const tsc = join(repositoryRoot, "node_modules/.bin/tsc");
    const { stdout } = await run(tsc, ["-p", "."], { cwd: directory }).catch((error) => error);
    expect(stdout).toBe("");
  });
});

async function write(name: string, text: string): Promise<void> {
  await writeFile(join(directory, name), text);
}
