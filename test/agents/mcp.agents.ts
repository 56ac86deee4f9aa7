import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { claude as adapter } from "@concierge/runner/agents/claude";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Answer, ModelApi } from "../testing/model-api.ts";
import type { ModelRequest } from "../testing/model-requests.ts";
import { startNpmCache } from "../testing/npm-cache.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

const run = promisify(execFile);
const cli = fileURLToPath(new URL("../../packages/cli/bin/concierge.mjs", import.meta.url));

let concierge: Concierge;
let model: ModelApi;
let home: string;
let program: string;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "concierge-mcp-claude-"));
  model = await ModelApi.start();
  concierge = await startConcierge({ reapEveryMs: 3_600_000 });
  program = await installClaude();
}, 300_000);
afterAll(async () => {
  await concierge[Symbol.asyncDispose]();
  await model[Symbol.asyncDispose]();
  await rm(home, { recursive: true, force: true });
});

/** Kept between runs: it is large, and an exact version never changes. */
async function installClaude(): Promise<string> {
  if (!("version" in adapter.install)) throw new Error("claude is not installed from npm");
  const directory = join(tmpdir(), `concierge-claude-${adapter.install.version}`);
  const file = join(directory, "bin", "claude");
  if (await stat(file).catch(() => undefined)) return file;
  await using npm = await startNpmCache();
  const { file: installer, args } = adapter.install.command(directory);
  await mkdir(directory, { recursive: true });
  await run(installer, args, { env: { ...process.env, npm_config_registry: npm.url } });
  return file;
}

it.each(["http", "stdio"] as const)("claude starts, follows and stops a task over %s", async (type) => {
  const servers = {
    http: {
      type: "http",
      url: `${concierge.url}/mcp`,
      headers: { Authorization: `Bearer ${concierge.apiKey}` },
    },
    stdio: {
      type: "stdio",
      command: process.execPath,
      args: [cli, "mcp"],
      env: { CONCIERGE_URL: concierge.url, CONCIERGE_API_KEY: concierge.apiKey },
    },
  };
  const config = join(home, `${type}.json`);
  await writeFile(config, JSON.stringify({ mcpServers: { concierge: servers[type] } }));

  const before = model.requests.length;
  model.answer = (request) => decide(request, `claude-${type}`);
  const args = ["-p", "Start a task, follow it and stop it.", "--output-format", "json"];
  const child = execFile(
    program,
    [...args, "--mcp-config", config, "--strict-mcp-config", "--allowedTools", "mcp__concierge"],
    {
      cwd: home,
      env: {
        PATH: process.env.PATH,
        HOME: home,
        ...model.environment,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        ENABLE_TOOL_SEARCH: "false",
        IS_SANDBOX: "1",
      },
    },
  );
  child.stdin?.end();
  let printed = "";
  child.stdout?.on("data", (text) => {
    printed += text;
  });
  const [code] = await once(child, "close");
  expect([code, printed]).toEqual([0, expect.stringContaining('"result":"It is stopped."')]);

  const results = model.since(before).at(-1)?.toolResults ?? [];
  expect(results).toHaveLength(3);
  const [started, followed, stopped] = results.map((text) => JSON.parse(text) as Record<string, unknown>);
  expect(started).toMatchObject({ turn: 1, sessionKey: `claude-${type}` });
  expect(followed).toMatchObject({ id: started?.id, status: "running" });
  expect(stopped).toMatchObject({ id: started?.id, status: "stopped" });
  const task = await concierge.client.ended(String(started?.id));
  expect(task).toMatchObject({ status: "stopped", error: { code: "stopped_by_user" } });
});

/** The model's part: one tool call after the other, with the id that the first one returned. */
function decide({ toolResults, tools }: ModelRequest, sessionKey: string): Answer {
  // Claude also asks a model for other things, such as a title.
  if (!tools.includes("mcp__concierge__start_task")) return { text: "ok" };
  const [started] = toolResults;
  if (started === undefined) {
    const input = { prompt: "echo from claude; sleep 600", agent: "shell", sessionKey };
    return { tool: "mcp__concierge__start_task", input };
  }
  const taskId = /task_[0-9a-z]{26}/.exec(started)?.[0];
  if (toolResults.length === 1)
    return { tool: "mcp__concierge__get_task", input: { taskId, waitMs: 10_000 } };
  if (toolResults.length === 2) return { tool: "mcp__concierge__stop_task", input: { taskId } };
  return { text: "It is stopped." };
}
