import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { type AllFlags, allFlags, flagNames, isOnFor } from "@concierge/core";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { type Concierge, startConcierge } from "../testing/stack.ts";
import { usersFor } from "./rollout.ts";

let concierge: Concierge;

beforeAll(async () => {
  concierge = await startConcierge({ reapEveryMs: 3_600_000 });
});
afterAll(() => concierge[Symbol.asyncDispose]());
beforeEach(async () => {
  await concierge.control("DELETE", "/faults");
  await concierge.client.json("PUT", "/v1/flags", allFlags("on"));
});

const flags = async () => (await concierge.client.json("GET", "/v1/flags")) as AllFlags;

function launch(args: string[], env: Record<string, string> = { CONCIERGE_API_KEY: concierge.apiKey }) {
  const cli = fileURLToPath(new URL("./cli.ts", import.meta.url));
  const { PATH = "" } = process.env;
  return spawn(process.execPath, [cli, ...args], {
    env: { PATH, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

async function run(args: string[], env?: Record<string, string>) {
  const child = launch(args, env);
  const [out, err, [exitCode]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "exit") as Promise<[number]>,
  ]);
  return { exitCode, out: out + err };
}

const rollOut = (to: string) => ["--url", concierge.url, "--rollout", to, "--settle", "0"];

it("tests a healthy stage without changes, and leaves nothing behind", async () => {
  const { exitCode, out } = await run(["--url", concierge.url]);
  expect(out).toContain("stop, proven");
  expect(exitCode).toBe(0);
  expect((await concierge.client.json("GET", "/v1/keys")).items).toEqual([]);
  expect(await concierge.client.json("GET", "/v1/pool")).toMatchObject({ ready: 0, leased: 0 });
});

it("rolls out to a share of users, tested as one inside and one outside", async () => {
  const { exitCode, out } = await run(rollOut("50%"));
  expect(exitCode, out).toBe(0);
  expect(await flags()).toEqual(allFlags("50%"));
  for (const userId of usersFor(allFlags("50%"))) expect(out).toContain(`${userId}: stop, proven`);
});

it("restores the flags and fails when the stage is not healthy", async () => {
  await concierge.client.json("PUT", "/v1/flags", allFlags("10%"));
  const effect = { type: "status", status: 400 };
  await concierge.control("POST", "/faults", { route: "createSandbox", count: 1000, effect });
  const { exitCode, out } = await run(rollOut("on"));
  expect(exitCode).toBe(1);
  expect(out).toContain("failed: the task failed");
  expect(out).toContain("the flags are what they were before");
  expect(await flags()).toEqual(allFlags("10%"));
});

it("restores the flags when it is interrupted", async () => {
  const child = launch([...rollOut("50%").slice(0, -1), "60000"]);
  let out = "";
  for await (const chunk of child.stdout) {
    out += String(chunk);
    if (out.includes("all flags are 50% now")) break;
  }
  expect(await flags()).toEqual(allFlags("50%"));
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([1, null]);
  expect(await flags()).toEqual(allFlags("on"));
});

it.each([
  [[], "--url takes the stage's address"],
  [["--url", "http://127.0.0.1:9", "--rollout", "much"], "--rollout takes on, off or a percentage"],
  [["--url", "http://127.0.0.1:9", "--settle", "soon"], "--settle takes milliseconds"],
  [["--nothing"], "Unknown option"],
])("says what is wrong with %j", async (args, line) => {
  const { exitCode, out } = await run(args);
  expect(out).toContain(line);
  expect(exitCode).toBe(2);
});

it("requires the key, and reads it only from the environment", async () => {
  const { exitCode, out } = await run(["--url", concierge.url], {});
  expect(out).toContain("CONCIERGE_API_KEY must be set");
  expect(exitCode).toBe(2);
});

it("finds a user for whom every flag is on and one for whom every flag is off", () => {
  const [inside = "", outside = ""] = usersFor(allFlags("10%"));
  const isOn = (userId: string) => flagNames.map((name) => isOnFor("10%", name, userId));
  expect(isOn(inside)).toEqual([true, true, true, true, true]);
  expect(isOn(outside)).toEqual([false, false, false, false, false]);
  expect(usersFor(allFlags("on"))).toHaveLength(1);
  expect(usersFor({ ...allFlags("on"), ENABLE_HEALTH_PROBE: "off" })).toEqual(["smoke"]);
});
