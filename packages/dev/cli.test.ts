import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { Sandbox } from "@vercel/sandbox";
import { localFetch } from "vercel-sandbox-local";
import { describe, expect, test } from "vitest";
import { processStart } from "./processes/process-start.ts";
import { readNotes } from "./testing/notes.ts";
import { processTree } from "./testing/process-tree.ts";
import { temporaryDirectory, until } from "./testing/stack.ts";

const bin = fileURLToPath(new URL("./bin/concierge-dev.mjs", import.meta.url));
const dev = fileURLToPath(new URL("./testing/dev.ts", import.meta.url));

interface Ready {
  ready: true;
  url: string;
  apiKey: string;
  userId: string;
}

function run(command: string, args: string[], options: { cwd?: string; env?: Record<string, string> } = {}) {
  const { npm_lifecycle_event: _, ...env } = { ...process.env, ...options.env };
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options, env });
  const finished = Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]).then(
    ([stdout, stderr, [code, signal]]) => ({ stdout, stderr, code, signal }),
  );
  return { child, finished };
}

/** Starts `concierge-dev` with the tests' topology and kills it at the end of the test. */
async function startDev(
  options: { args?: string[]; env?: Record<string, string>; viaNpm?: boolean; dataDir?: string } = {},
) {
  const directory = await temporaryDirectory();
  const dataDir = options.dataDir ?? join(directory.path, "data");
  const args = [dev, "--json", "--port", "0", "--data-dir", dataDir, ...(options.args ?? [])];
  const notes = join(directory.path, "notes");
  const temporary = join(directory.path, "tmp");
  const env = { FIXTURE_NOTES: notes, TMPDIR: temporary, ...options.env };
  await mkdir(temporary);
  if (options.viaNpm) {
    const script = [process.execPath, ...args].map((word) => `'${word}'`).join(" ");
    await writeFile(join(directory.path, "package.json"), JSON.stringify({ scripts: { dev: script } }));
  }
  const { child, finished } = options.viaNpm
    ? run("npm", ["run", "--silent", "dev"], { cwd: directory.path, env })
    : run(process.execPath, args, { env });
  let tree: ReturnType<typeof processTree> = [];
  let logged = "";
  child.stderr.on("data", (chunk) => {
    logged += chunk;
  });
  return {
    child,
    finished,
    dataDir,
    temporary,
    logged: () => logged,
    async ready(): Promise<Ready> {
      const [line] = await Promise.race([once(child.stdout, "data"), finished.then(fail)]);
      tree = processTree(child.pid);
      return JSON.parse(String(line));
    },
    /** Blocks the event loop of a function. */
    async block(url: string): Promise<void> {
      fetch(new URL("/block", url)).catch(() => {});
      await until(async () => (await readNotes(notes)).includes("blocked"), "a function is stuck");
    },
    async [Symbol.asyncDispose]() {
      for (const { pid, start } of [...tree, ...processTree(child.pid)]) {
        if (processStart(pid) === start) process.kill(pid, "SIGKILL");
      }
      await finished;
      await directory[Symbol.asyncDispose]();
    },
  };
}

function fail({ stderr }: { stderr: string }): never {
  throw new Error(`it exited before it was ready:\n${stderr}`);
}

async function allGone(processes: { pid: number; start: string }[]): Promise<void> {
  const alive = () => processes.filter(({ pid, start }) => processStart(pid) === start);
  await until(() => alive().length === 0, `${processes.length} processes have ended`);
}

async function signalUntilExit(child: ChildProcess, signals: NodeJS.Signals[]): Promise<void> {
  for (const signal of signals) {
    child.kill(signal);
    await new Promise((next) => setImmediate(next));
  }
}

describe("the command line", () => {
  test("--help lists the options", async () => {
    const { stdout, code } = await run(process.execPath, [bin, "--help"]).finished;
    expect(code).toBe(0);
    for (const option of [
      "--port",
      "--data-dir",
      "--reap-every",
      "--api-processes",
      "--bundled",
      "--json-logs",
    ]) {
      expect(stdout).toContain(option);
    }
  });

  test("an old Node gets one line that names the required version", async () => {
    const old = 'Object.defineProperty(process, "versions", { value: { node: "22.17.1" } })';
    const args = ["--import", `data:text/javascript,${encodeURIComponent(old)}`, bin];
    const { stdout, stderr, code } = await run(process.execPath, args).finished;
    const line = "concierge-dev: needs Node.js 22.18 or later; this is 22.17.1\n";
    expect({ stdout, stderr, code }).toEqual({ stdout: "", stderr: line, code: 1 });
  });

  test.each([
    [["--port", "x"], "--port takes a whole number from 0 to 65535"],
    [["--port", "65536"], "--port takes a whole number from 0 to 65535"],
    [["--port=-1"], "--port takes a whole number from 0 to 65535"],
    [["--port"], "Option '--port <value>' argument missing"],
    [["--data-dir", ""], "--data-dir takes a directory"],
    [["--reap-every", "1s"], "--reap-every takes a whole number from 10 to 86400000"],
    [["--api-processes", "0"], "--api-processes takes a whole number from 1 to 32"],
    [["--nope"], "Unknown option '--nope'"],
    [["extra"], "Unexpected argument 'extra'"],
  ])("%j is refused with one line and exit 2", async (args, line) => {
    const { stdout, stderr, code } = await run(process.execPath, [bin, ...args]).finished;
    expect({ stdout, stderr, code }).toEqual({ stdout: "", stderr: `concierge-dev: ${line}\n`, code: 2 });
  });

  test.each([
    ["CONCIERGE_API_KEY", "short", "CONCIERGE_API_KEY takes 16 to 256 printable characters without spaces"],
    ["VERCEL_TOKEN", "t", "VERCEL_TEAM_ID, VERCEL_PROJECT_ID must be set too, or VERCEL_TOKEN left out"],
  ])("an invalid %s prints one line that names it, exit 1", async (name, value, line) => {
    await using started = await startDev({ env: { [name]: value } });
    const { stdout, stderr, code } = await started.finished;
    expect({ stdout, stderr, code }).toEqual({ stdout: "", stderr: `concierge-dev: ${line}\n`, code: 1 });
  });

  test("a port in use prints one line, exit 1", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await using started = await startDev({ args: ["--port", String(port)] });
    const { stdout, stderr, code } = await started.finished;
    server.close();
    expect({ stdout, code }).toEqual({ stdout: "", code: 1 });
    expect(stderr).toBe(
      `concierge-dev: port ${port} is in use: choose another with --port, or 0 for a free one\n`,
    );
  });

  test("--bundled runs the bundles from a temporary directory", async () => {
    await using stack = await startDev({ args: ["--bundled"] });
    const { url } = await stack.ready();
    const environment = (await (await fetch(new URL("/environment", url))).json()) as Record<string, string>;
    expect(environment).toMatchObject({ _HANDLER: "bundle.handler", FIXTURE_ASSET: "FIXTURE_ASSET.mjs" });
    expect(environment.LAMBDA_TASK_ROOT?.startsWith(stack.temporary)).toBe(true);
    stack.child.kill("SIGTERM");
    expect((await stack.finished).code).toBe(0);
    expect(readdirSync(stack.temporary)).toEqual([]);
  });

  test("--json prints exactly one line on stdout", async () => {
    await using started = await startDev();
    const { url } = await started.ready();
    expect((await fetch(new URL("/healthz", url))).status).toBe(200);
    started.child.kill("SIGTERM");
    const { stdout, stderr, code } = await started.finished;
    expect(code).toBe(0);
    expect(stdout.trimEnd().split("\n")).toHaveLength(1);
    expect(JSON.parse(stdout)).toEqual({
      ready: true,
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      apiKey: expect.stringMatching(/^ck_dev_[\w-]{43}$/),
      userId: "dev",
    });
    expect(stderr).toContain("starting the functions");
  });

  test.each([
    [[], /^\d\d:\d\d:\d\d api {5}GET \/logged 204 7 ms$/m],
    [["--json-logs"], /^\{"_aws":.*"path":"\/logged".*\}$/m],
  ])("with %j requests are logged to stderr as %s", async (args, line) => {
    await using started = await startDev({ args });
    const { url } = await started.ready();
    await fetch(new URL("/logged", url));
    await until(() => line.test(started.logged()), "the request is logged");
  });

  test("a data directory in use is refused, and after a kill -9 the next process takes over", async () => {
    await using first = await startDev();
    const { apiKey } = await first.ready();
    await using second = await startDev({ dataDir: first.dataDir });
    const refused = await second.finished;
    expect(refused).toMatchObject({ stdout: "", code: 1 });
    expect(refused.stderr).toBe(`concierge-dev: ${first.dataDir} is in use by process ${first.child.pid}\n`);
    first.child.kill("SIGKILL");
    await first.finished;
    await using third = await startDev({ dataDir: first.dataDir });
    expect(await third.ready()).toMatchObject({ ready: true, apiKey });
  });
});

describe("shutdown", () => {
  test.each<[string, NodeJS.Signals[]]>([
    ["SIGTERM", ["SIGTERM"]],
    ["SIGINT", ["SIGINT"]],
    ["SIGINT again and again", ["SIGINT", "SIGINT", "SIGINT", "SIGTERM", "SIGINT"]],
  ])("by %s leaves no process and no temporary file, exit 0", async (_name, signals) => {
    await using started = await startDev();
    const { url } = await started.ready();
    const spawned = await fetch(new URL("/spawn", url), { method: "POST" });
    const tree = processTree(started.child.pid);
    expect(tree.map(({ pid }) => pid)).toContain(((await spawned.json()) as { pid: number }).pid);
    expect(tree.length).toBeGreaterThanOrEqual(8);
    await signalUntilExit(started.child, signals);
    expect(await started.finished).toMatchObject({ code: 0, signal: null });
    await allGone(tree);
    expect(readdirSync(started.dataDir).sort()).toEqual([
      "assets",
      "cache",
      "dynamodb",
      "sandboxes",
      "secrets.json",
    ]);
    expect(readdirSync(started.temporary)).toEqual([]);
  });

  test("by SIGTERM is not delayed by a blocked function", async () => {
    await using started = await startDev();
    const { url } = await started.ready();
    await started.block(url);
    const tree = processTree(started.child.pid);
    started.child.kill("SIGTERM");
    expect(await started.finished).toMatchObject({ code: 0, signal: null });
    await allGone(tree);
  });

  test("by SIGINT works during the start", async () => {
    await using started = await startDev();
    await once(started.child.stderr, "data");
    const tree = processTree(started.child.pid);
    started.child.kill("SIGINT");
    expect(await started.finished).toMatchObject({ stdout: "", code: 0, signal: null });
    await allGone(tree);
  });

  test("by kill -9 leaves no process, not even a blocked one", async () => {
    await using started = await startDev();
    const { url } = await started.ready();
    await started.block(url);
    const tree = processTree(started.child.pid);
    started.child.kill("SIGKILL");
    await allGone(tree);
  });

  test("by kill -9 leaves no process of a running sandbox", async () => {
    await using started = await startDev();
    await started.ready();
    const [, url = "", token = ""] =
      /the sandbox API is at (\S+) with token (\S+)/.exec(started.logged()) ?? [];
    const sandbox = await Sandbox.create({
      fetch: localFetch(url),
      token,
      teamId: "local",
      projectId: "local",
    });
    await sandbox.runCommand({ cmd: "sleep", args: ["600"], detached: true });
    const tree = processTree(started.child.pid);
    expect(tree.length).toBeGreaterThanOrEqual(10);
    started.child.kill("SIGKILL");
    await allGone(tree);
  });

  test("follows a kill -9 of the npm that started it", async () => {
    await using started = await startDev({ viaNpm: true });
    await started.ready();
    const tree = processTree(started.child.pid);
    expect(tree.length).toBeGreaterThanOrEqual(8);
    started.child.kill("SIGKILL");
    await allGone(tree);
  });
});
