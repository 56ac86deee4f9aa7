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

const run = promisify(execFile);
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "concierge-packages-"));
  const tarballs = await packPackages(join(directory, "tarballs"));
  await write("package.json", JSON.stringify({ private: true, type: "module" }));
  const quiet = ["--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"];
  await run("npm", ["install", ...quiet, ...Object.values(tarballs), "@vercel/sandbox@3.5.0"], {
    cwd: directory,
  });
}, 300_000);

afterAll(() => rm(directory, { recursive: true, force: true }));

describe("a project that installed the packages from tarballs", () => {
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
    const server = spawn(process.execPath, [bin, "--json", "--data-dir", "data"], {
      cwd: directory,
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const [line] = await once(createInterface({ input: server.stdout }), "line");
      const { stdout } = await run(
        process.execPath,
        ["use.js", JSON.parse(line).url, JSON.parse(line).token],
        { cwd: directory },
      );
      expect(stdout).toBe("hello from the sandbox\n");
    } finally {
      server.kill("SIGTERM");
      await once(server, "exit");
    }
  });

  test("imports @concierge/sessions", async () => {
    const script = `import * as sessions from "@concierge/sessions"; console.log(Object.keys(sessions).join());`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], {
      cwd: directory,
    });
    expect(stdout.trim().split(",")).toContain("SandboxSessionManager");
  });

  test("type-checks against the declarations of both packages", async () => {
    await write(
      "consumer.ts",
      `import { type SandboxSession, SandboxSessionManager, type SandboxSessionManagerConfig } from "@concierge/sessions";
      import { type SandboxApi, startSandboxApi } from "vercel-sandbox-local";
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
      lib: ["es2024", "esnext.disposable"],
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
