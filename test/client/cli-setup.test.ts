import { chmod, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Concierge, startConcierge } from "../testing/stack.ts";
import { type Ran, startCli } from "./run-cli.ts";

let concierge: Concierge;
let config: string;
beforeAll(async () => {
  config = await mkdtemp(join(tmpdir(), "concierge-config-"));
  concierge = await startConcierge({ reapEveryMs: 3_600_000 });
});
afterAll(async () => {
  await concierge[Symbol.asyncDispose]();
  await rm(config, { recursive: true, force: true });
});

const environment = (over: Record<string, string> = {}) => ({
  CONCIERGE_URL: concierge.url,
  CONCIERGE_API_KEY: concierge.apiKey,
  XDG_CONFIG_HOME: config,
  ...over,
});
const run = (...args: string[]): Promise<Ran> => startCli(args, environment()).done;
const runJson = async (...args: string[]) => {
  const { code, stdout, stderr } = await run(...args, "--json");
  return { code, stderr, json: stdout === "" ? undefined : JSON.parse(stdout) };
};

describe("mistakes have their exit code and say what to do next", () => {
  it.each([
    [["start"], 2, "missing required argument"],
    [["ps", "--status", "nope"], 2, "Allowed choices"],
    [["ps", "--bogus"], 2, "unknown option"],
    [["nope"], 2, "unknown command"],
    [["start", "x", "--max-duration", "5"], 2, "30s, 5m or 2h"],
    [["start", "x", "--branch", "b"], 2, "need --repo"],
    [["start", ""], 2, "prompt"],
    [["ps", "--profile", "nope"], 2, "concierge login --profile nope"],
    [["ps", "--url", "zzz"], 2, "not a URL"],
    [["show", "task_nope"], 3, "concierge ps"],
    [["stop", "task_nope"], 3, "concierge ps"],
    [["logs", "-f", "task_nope"], 3, "concierge ps"],
    [["ps", "--key", "wrong"], 4, "concierge login"],
    [["ps", "--url", "http://127.0.0.1:9"], 1, "concierge doctor"],
  ])("%j exits with %i", async (args, code, text) => {
    const ran = await run(...args);
    expect(ran.stderr).toContain(text);
    expect(ran).toMatchObject({ code, stdout: "" });
  });

  it("a URL of another server is named", async () => {
    const server = createServer((_, response) => response.writeHead(404).end("<html>"));
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const address = server.address();
    const url = `http://127.0.0.1:${address && typeof address === "object" ? address.port : 0}`;
    expect(await run("ps", "--url", url)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("Check --url"),
    });
    server.close();
  });

  it("with --json the error is JSON on stderr", async () => {
    const { code, stderr } = await run("show", "task_nope", "--json");
    expect(code).toBe(3);
    expect(JSON.parse(stderr).error).toMatchObject({ code: "not_found", next: expect.any(String) });
  });

  it("without a key says how to get one", async () => {
    const ran = await startCli(["ps"], { XDG_CONFIG_HOME: config, CONCIERGE_URL: concierge.url }).done;
    expect(ran).toMatchObject({ code: 2, stderr: expect.stringContaining("concierge login") });
  });
});

describe("login", () => {
  const file = () => join(config, "concierge/profiles.json");
  const bare = { XDG_CONFIG_HOME: "" };
  const withConfig = () => ({ ...bare, XDG_CONFIG_HOME: config });

  it("stores a URL and key that work, for the owner alone, and commands use them", async () => {
    const args = ["login", "--profile", "dev", "--url", concierge.url, "--key-stdin"];
    const wrong = await startCli(args, withConfig(), "wrong").done;
    expect(wrong.code).toBe(4);
    await expect(stat(file())).rejects.toThrow();

    const { code, stdout } = await startCli(args, withConfig(), `${concierge.apiKey}\n`).done;
    expect(code).toBe(0);
    expect(stdout).not.toContain(concierge.apiKey);
    expect((await stat(file())).mode & 0o777).toBe(0o600);
    expect((await startCli(["ps", "--profile", "dev"], withConfig()).done).code).toBe(0);
    // The default profile is another one.
    expect((await startCli(["ps"], withConfig()).done).code).toBe(2);

    await chmod(file(), 0o644);
    const doctor = await startCli(["doctor", "--profile", "dev"], withConfig()).done;
    expect(doctor).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("others can read the stored keys"),
    });

    expect((await startCli(["logout", "--profile", "dev"], withConfig()).done).code).toBe(0);
    expect(JSON.parse(await readFile(file(), "utf8"))).toEqual({});
  });

  it("asks only on a terminal", async () => {
    const { code, stderr } = await startCli(["login", "--url", concierge.url], withConfig()).done;
    expect(code).toBe(2);
    expect(stderr).toContain("--key-stdin");
  });
});

it("doctor checks machine, server, key, clock and provider", async () => {
  const { code, json } = await runJson("doctor");
  const results = Object.fromEntries(
    json.checks.map(({ name, result }: Record<string, string>) => [name, result]),
  );
  expect(results).toMatchObject({
    node: "ok",
    credentials: "ok",
    server: "ok",
    clock: "ok",
    key: "ok",
    provider: "ok",
  });
  expect(code).toBe(0);
  const down = await run("doctor", "--url", "http://127.0.0.1:9");
  expect(down).toMatchObject({ code: 1, stdout: expect.stringContaining("concierge dev") });
});

it("help, version and completion are printed", async () => {
  expect((await run("--help")).stdout).toContain(
    "Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 refused.",
  );
  expect((await run("start", "--help")).stdout).toContain("--json");
  expect((await run("--version")).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect((await run()).code).toBe(2);
  for (const shell of ["bash", "zsh", "fish"])
    expect((await run("completion", shell)).stdout).toContain("sessions");
  expect((await run("completion", "tcsh")).code).toBe(2);
});

it("every command has help that names it, its options and the common ones", async () => {
  const { stdout } = await run("--help");
  const listed = [...(/^Commands:\n([\s\S]+?)\n\n/m.exec(stdout)?.[1] ?? "").matchAll(/^ {2}([a-z]+)\b/gm)];
  const commands = listed.map(([, name = ""]) => name).filter((name) => name !== "help");
  expect(commands).toEqual(
    expect.arrayContaining(
      "start stop continue ps show logs watch exec sessions pool metrics reap flags keys doctor login mcp dev".split(
        " ",
      ),
    ),
  );
  for (const command of commands) {
    const ran = await run(command, "--help");
    expect([command, ran.code, ran.stderr]).toEqual([command, 0, ""]);
    expect(ran.stdout).toMatch(new RegExp(`^Usage: concierge ${command}\\b`));
    expect(ran.stdout).toContain("--url");
  }
}, 60_000);

it("each exit code is used as documented", async () => {
  const key = (await concierge.client.json("POST", "/v1/keys", { scopes: ["tasks:read"] })).key as string;
  const codes = {
    0: ["ps"],
    1: ["start", "exit 7", "--session", "codes", "--watch"],
    2: ["ps", "--limit", "nope"],
    3: ["show", "task_none"],
    4: ["start", "true", "--key", key],
  };
  for (const [code, args] of Object.entries(codes))
    expect([args, (await run(...args)).code]).toEqual([args, Number(code)]);
}, 60_000);

it("dev runs the embedded stack and ends it with a signal", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "concierge-cli-dev-"));
  const { child, printed, done } = startCli(["dev", "--json", "--", "--port", "0", "--data-dir", dataDir], {
    HOME: process.env.HOME ?? "",
  });
  await expect.poll(() => printed.stdout, { timeout: 40_000 }).toContain("\n");
  const { url, apiKey } = JSON.parse(printed.stdout);
  expect((await startCli(["pool", "--url", url, "--key", apiKey], {}).done).code).toBe(0);
  child.kill("SIGTERM");
  expect((await done).code).toBe(0);
  await rm(dataDir, { recursive: true, force: true });
}, 60_000);
