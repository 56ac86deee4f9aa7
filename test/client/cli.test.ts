import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startCuttingProxy } from "../testing/cutting-proxy.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";
import { type Ran, startCli } from "./run-cli.ts";
import { startSwitchProxy } from "./switch-proxy.ts";

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
const idOf = ({ stdout }: Ran) => stdout.trim();

describe("a task on the command line", () => {
  it("is started, shown, listed, continued and stopped", async () => {
    const started = await run(
      "start",
      "echo hello",
      "--session",
      "basic",
      "--metadata",
      "team=a",
      "--max-duration",
      "2m",
    );
    expect(started).toMatchObject({ code: 0, stderr: "" });
    const id = idOf(started);
    expect(id).toMatch(/^task_/);
    expect((await run("watch", id)).code).toBe(0);
    expect(await run("logs", id)).toMatchObject({ code: 0, stdout: "hello\n" });
    expect(await run("logs", "-f", id)).toMatchObject({ code: 0, stdout: "hello\n" });

    const shown = await run("show", id);
    expect(shown.stdout).toMatch(/^status +succeeded$/m);
    expect(shown.stdout).toMatch(/^metadata +team=a$/m);
    expect((await runJson("show", id)).json).toMatchObject({ id, limits: { maxDurationMs: 120_000 } });

    const listed = await run("ps", "--session", "basic");
    expect(listed.stdout.split("\n")[0]).toMatch(/^TASK +STATUS +TURN/);
    expect(listed.stdout).toContain(`${id}  succeeded`);
    expect((await runJson("ps", "--status", "succeeded")).json.items[0].id).toBe(id);

    expect((await run("continue", id, "sleep 600")).code).toBe(0);
    expect(await run("continue", id, "x")).toMatchObject({
      code: 4,
      stderr: expect.stringContaining("concierge stop"),
    });
    const stopped = await run("stop", id);
    expect(stopped).toMatchObject({ code: 0, stdout: expect.stringContaining(`${id} stopped`) });
    expect((await run("watch", id)).code).toBe(1);
  });

  it("start --watch prints plain lines and exits as the task ends", async () => {
    const good = await run("start", "echo hello; echo oops >&2", "--session", "plain", "--watch");
    expect(good.code).toBe(0);
    expect(good.stdout).toContain("-- queued\n");
    expect(good.stdout).toContain("\nhello\n");
    expect(good.stdout).toMatch(/-- succeeded after [\d.]+ s, \$0\.00\n$/);
    expect(good.stdout).not.toContain("\x1b");

    const bad = await run("start", "exit 3", "--session", "plain", "-w");
    expect(bad).toMatchObject({ code: 1, stdout: expect.stringContaining("agent_failed") });

    const json = await run("start", "echo hi", "--session", "plain", "-w", "--json");
    const lines = json.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.filter(({ type }) => type === "output").map(({ text }) => text)).toEqual(["hi\n"]);
    expect(lines.at(-1)).toMatchObject({ type: "task", task: { status: "succeeded" } });
  });

  it("a prompt and variables come from stdin and the environment, and stay out of the arguments", async () => {
    const args = ["start", "-", "--session", "stdin", "--watch", "--env", "GIVEN", "--env", "PLAIN=two"];
    const { done } = startCli(args, environment({ GIVEN: "one" }), "echo $GIVEN $PLAIN");
    expect((await done).stdout).toContain("\none two\n");
  });
});

describe("logs -f", () => {
  const lines = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, i) => `line ${from + i}\n`).join("");

  it("resumes when the server goes away in the middle and comes back", async () => {
    const { id } = await concierge.client.start("for i in $(seq 40); do echo line $i; sleep 0.15; done");
    await using proxy = await startSwitchProxy(concierge.url);
    const { printed, done } = startCli(["logs", "-f", id], environment({ CONCIERGE_URL: proxy.url }));
    await expect.poll(() => printed.stdout, { timeout: 20_000 }).toContain("line 5\n");
    await proxy.down();
    await expect.poll(() => printed.stderr, { timeout: 10_000 }).toContain("Connecting again");
    const before = printed.stdout;
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(printed.stdout).toBe(before);
    await proxy.up();
    expect(await done).toMatchObject({ code: 0, stdout: lines(1, 40) });
  });

  it("is complete over connections that are cut at random", async () => {
    const { id } = await concierge.client.start("for i in $(seq 25); do echo line $i; sleep 0.1; done");
    await using proxy = await startCuttingProxy(concierge.url);
    proxy.allow(() => 500 + Math.floor(Math.random() * 1_500));
    const { done } = startCli(["logs", "-f", id], environment({ CONCIERGE_URL: proxy.url }));
    expect(await done).toMatchObject({ code: 0, stdout: lines(1, 25) });
    expect(proxy.cuts()).toBeGreaterThan(2);
  });

  it("ends quietly when its reader does", async () => {
    const { id } = await concierge.client.start("seq 100000");
    await concierge.client.ended(id);
    const { child, printed, done } = startCli(["logs", id], environment());
    child.stdout?.once("data", () => child.stdout?.destroy());
    expect((await done).code).toBe(0);
    expect(printed.stderr).toBe("");
  });
});

it("sessions are prepared, used, extended, reset and deleted", async () => {
  expect((await run("sessions", "prepare", "box")).code).toBe(0);
  const failed = await run("exec", "box", "--", "sh", "-c", "echo out; echo err >&2; exit 7");
  expect(failed).toMatchObject({ code: 1, stdout: "out\n", stderr: "err\nconcierge: exit code 7\n" });
  expect(await run("exec", "box", "--cwd", "/", "--", "pwd")).toMatchObject({ code: 0, stdout: "/\n" });
  expect((await runJson("exec", "box", "true")).json).toMatchObject({ exitCode: 0 });
  expect(await run("exec", "box", "--timeout", "1s", "--", "sleep", "60")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("killed at its timeout"),
  });
  expect((await run("sessions", "extend", "box", "2h")).stdout).toMatch(/^kept until {2}20/m);
  expect((await run("sessions", "reset", "box")).code).toBe(0);
  expect((await run("sessions", "show", "box", "--probe")).stdout).toMatch(/^health +healthy$/m);
  expect((await run("sessions")).stdout).toMatch(/^box +concierge-/m);
  expect(await run("sessions", "delete", "box")).toMatchObject({ code: 0, stdout: "box deleted\n" });
  expect((await run("exec", "never-there", "true")).code).toBe(3);
});

it("pool, costs, reap, flags and keys are shown and changed", async () => {
  expect((await run("pool")).stdout).toMatch(/^sandboxes +\d+ of 100$/m);
  expect((await run("costs")).stdout).toMatch(/^DAY +USER/);
  expect((await runJson("reap", "--dry-run")).json).toMatchObject({ dryRun: true });
  expect((await run("reap")).stdout).toMatch(/^complete +yes$/m);
  expect((await run("flags", "set", "ENABLE_HEALTH_PROBE=40%")).stdout).toMatch(
    /^ENABLE_HEALTH_PROBE +40%$/m,
  );
  expect((await run("flags")).stdout).toMatch(/^ENABLE_HEALTH_PROBE +40%$/m);
  await run("flags", "set", "ENABLE_HEALTH_PROBE=on");
  const limited = ["--name", "ci", "--scope", "tasks:read", "tasks:write", "--expires-in", "30d"];
  const { id, key } = (await runJson("keys", "create", "bob", ...limited)).json;
  expect((await run("keys")).stdout).toMatch(new RegExp(`^${id} +bob +ci .*tasks:read tasks:write$`, "m"));
  const asBob = await startCli(["flags", "--key", key], environment()).done;
  expect(asBob).toMatchObject({ code: 4, stderr: expect.stringContaining("CONCIERGE_API_KEY") });
  const rotated = await run("keys", "rotate", id, "--overlap", "1h");
  expect(rotated).toMatchObject({ code: 0, stdout: expect.stringMatching(/^ck_\S+\n$/) });
  expect(await run("keys", "revoke", id)).toMatchObject({ code: 0, stdout: `${id} revoked\n` });
  expect((await run("keys", "revoke", id)).code).toBe(3);
});

it("metrics shows the server's success metrics and their targets", async () => {
  await concierge.client.ended((await concierge.client.start("true")).id);
  await expect
    .poll(async () => (await run("metrics", "--window", "1h")).stdout, { timeout: 15_000 })
    .toMatch(/^response_time +\d+(\.\d+)? +ms +<= 12000 +(true|false) +\d+$/m);
  const { json } = await runJson("metrics");
  expect(json).toMatchObject({ window: "24h" });
});

it("metrics says so if the server has none, and shows them if it has", async () => {
  const server = createServer((request, response) => {
    const found = request.url === "/v1/metrics?window=1h";
    const target = { op: "<=", value: 3 };
    const metric = { name: "stop_p95", value: 1.5, unit: "s", target, met: true, samples: 12 };
    const body = found ? { window: "1h", items: [metric] } : { code: "not_found", detail: "Not found." };
    response.writeHead(found ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const address = server.address();
  const url = `http://127.0.0.1:${address && typeof address === "object" ? address.port : 0}`;
  const ask = (...args: string[]) => startCli(["metrics", ...args], environment({ CONCIERGE_URL: url })).done;
  expect((await ask("--window", "1h")).stdout).toMatch(/^stop_p95 +1\.5 +s +<= 3 +true +12$/m);
  expect(await ask("--window", "7d")).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("no metrics route"),
  });
  server.close();
});
