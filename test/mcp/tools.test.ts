import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Concierge, startConcierge } from "../testing/stack.ts";

const cli = fileURLToPath(new URL("../../packages/cli/bin/concierge.mjs", import.meta.url));
const names = [
  "start_task",
  "stop_task",
  "continue_task",
  "get_task",
  "list_tasks",
  "get_output",
  "list_sessions",
  "exec",
];

const badCalls = [
  ["start_task", {}, /prompt/],
  ["start_task", { prompt: "true", agent: "nobody" }, /agent/],
  ["start_task", { prompt: "true", waitMs: 1e9 }, /waitMs/],
  ["start_task", { prompt: "true", unknown: 1 }, /unknown/],
  ["get_task", {}, /taskId/],
  ["list_tasks", { limit: 0 }, /limit/],
  ["list_tasks", { cursor: "x" }, /^invalid_cursor/],
  ["exec", { sessionKey: "../x", command: "true" }, /sessionKey/],
  ["exec", { sessionKey: "not-there", command: "true" }, /^not_found/],
  ["get_task", { taskId: "task_none" }, /^not_found/],
] as const;

let concierge: Concierge;
beforeAll(async () => {
  concierge = await startConcierge({ reapEveryMs: 3_600_000 });
});
afterAll(async () => await concierge[Symbol.asyncDispose]());

const overHttp = (key: string) =>
  new StreamableHTTPClientTransport(new URL("/mcp", concierge.url), {
    requestInit: { headers: { authorization: `Bearer ${key}` } },
  });
const overStdio = (key: string) =>
  new StdioClientTransport({
    command: process.execPath,
    args: [cli, "mcp"],
    env: { PATH: process.env.PATH ?? "", CONCIERGE_URL: concierge.url, CONCIERGE_API_KEY: key },
    stderr: "ignore",
  });

async function connected(transport: Transport) {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  const call = async (name: string, args: Record<string, unknown> = {}) => {
    const result = (await client.callTool({ name, arguments: args })) as CallToolResult;
    const [content] = result.content;
    return {
      ...result,
      text: content?.type === "text" ? content.text : "",
      data: result.structuredContent ?? {},
    };
  };
  return { client, call, [Symbol.asyncDispose]: () => client.close() };
}

const keyWith = async (scopes: string[], userId?: string): Promise<string> =>
  (await concierge.client.json("POST", "/v1/keys", { scopes, ...(userId && { userId }) })).key as string;

describe.each([
  ["HTTP", overHttp],
  ["stdio", overStdio],
] as const)("MCP over %s", (transportName, transport) => {
  it("lists every tool with its schemas and annotations", async () => {
    await using mcp = await connected(transport(concierge.apiKey));
    const { tools } = await mcp.client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(names);
    for (const { inputSchema, outputSchema, annotations, description } of tools) {
      expect(inputSchema).toMatchObject({ type: "object", additionalProperties: false });
      expect(outputSchema?.type).toBe("object");
      expect(description?.length).toBeGreaterThan(20);
      expect(typeof annotations?.readOnlyHint).toBe("boolean");
    }
    const hints = Object.fromEntries(tools.map((tool) => [tool.name, tool.annotations]));
    expect(hints.get_task).toMatchObject({ readOnlyHint: true });
    expect(hints.stop_task).toMatchObject({
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: true,
    });
    const start = tools.find(({ name }) => name === "start_task");
    expect(Object.keys(start?.inputSchema.properties ?? {})).toEqual(
      expect.arrayContaining(["prompt", "agent", "sessionKey", "repo", "limits", "env", "webhook", "waitMs"]),
    );
  });

  it("starts, follows, reads, continues and stops a task, and runs a command beside it", async () => {
    await using mcp = await connected(transport(concierge.apiKey));
    const sessionKey = `mcp-${transportName}`;
    const started = await mcp.call("start_task", { prompt: "echo hello; sleep 2; echo there", sessionKey });
    expect(started.data).toMatchObject({ turn: 1, sessionKey });
    expect(JSON.parse(started.text)).toEqual(started.data);
    const taskId = String(started.data.id);

    const messages: string[] = [];
    const followed = (await mcp.client.callTool(
      { name: "get_task", arguments: { taskId, waitMs: 30_000 } },
      undefined,
      { onprogress: ({ message }) => messages.push(message ?? ""), resetTimeoutOnProgress: true },
    )) as CallToolResult;
    expect(followed.structuredContent).toMatchObject({ status: "succeeded", result: { exitCode: 0 } });
    expect(messages.some((message) => message.startsWith("running"))).toBe(true);

    expect((await mcp.call("get_output", { taskId })).data).toEqual({
      taskId,
      status: "succeeded",
      text: "hello\nthere\n",
      truncated: false,
    });
    expect((await mcp.call("get_output", { taskId, maxBytes: 6 })).data).toMatchObject({
      text: "there\n",
      truncated: true,
    });
    const { contents } = await mcp.client.readResource({ uri: `concierge://tasks/${taskId}/output` });
    expect(contents[0]).toMatchObject({ mimeType: "text/plain", text: "hello\nthere\n" });
    const { resourceTemplates } = await mcp.client.listResourceTemplates();
    expect(resourceTemplates[0]?.uriTemplate).toBe("concierge://tasks/{id}/output");
    const { resources } = await mcp.client.listResources();
    expect(resources.map(({ uri }) => uri)).toContain(`concierge://tasks/${taskId}/output`);

    const ran = await mcp.call("exec", { sessionKey, command: "sh", args: ["-c", "echo beside"] });
    expect(ran.data).toMatchObject({ exitCode: 0, stdout: "beside\n" });
    const { items: sessions } = (await mcp.call("list_sessions", { probe: true })).data as {
      items: { key: string; health: string }[];
    };
    expect(sessions.find(({ key }) => key === sessionKey)?.health).toBe("healthy");

    const continued = await mcp.call("continue_task", { taskId, prompt: "sleep 600" });
    expect(continued.data).toMatchObject({ id: taskId, turn: 2 });
    const again = await mcp.call("continue_task", { taskId, prompt: "echo too soon" });
    expect(again).toMatchObject({ isError: true, text: expect.stringMatching(/^task_active: .*stop_task/) });
    await concierge.client.until(taskId, ({ status }) => status === "running");
    const stopped = await mcp.call("stop_task", { taskId });
    expect(stopped.data).toMatchObject({ status: "stopped", error: { code: "stopped_by_user" } });
    // Idempotent, as its annotation says.
    expect((await mcp.call("stop_task", { taskId })).data).toMatchObject({ status: "stopped" });

    const listed = (await mcp.call("list_tasks", { sessionKey, limit: 1 })).data;
    expect(listed).toMatchObject({ items: [{ id: taskId, status: "stopped" }] });
  });

  it("waits for a started task and returns its result", async () => {
    await using mcp = await connected(transport(concierge.apiKey));
    const { data } = await mcp.call("start_task", {
      prompt: "echo done",
      sessionKey: "waits",
      waitMs: 50_000,
    });
    expect(data).toMatchObject({ status: "succeeded", result: { text: "done\n" } });
  });

  it("starts once for one idempotency key", async () => {
    await using mcp = await connected(transport(concierge.apiKey));
    const args = { prompt: "true", sessionKey: "once", idempotencyKey: `once-${transportName}` };
    const [one, two] = [await mcp.call("start_task", args), await mcp.call("start_task", args)];
    expect(one.data.id).toBe(two.data.id);
    await concierge.client.ended(String(one.data.id));
  });

  it("refuses a wrong key", async () => {
    await expect(connected(transport("ck_wrong"))).rejects.toThrow(/key|401/i);
  });

  it("names the scope that a key lacks", async () => {
    const key = await keyWith(["tasks:read"]);
    await using mcp = await connected(transport(key));
    const refused = await mcp.call("start_task", { prompt: "true" });
    expect(refused).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^missing_scope: .*tasks:write/),
    });
    expect(refused._meta).toMatchObject({ "concierge/problem": { code: "missing_scope" } });
    expect((await mcp.call("exec", { sessionKey: "s", command: "true" })).text).toContain("sessions:write");
    expect((await mcp.call("list_sessions")).text).toContain("sessions:read");
    expect((await mcp.call("list_tasks")).isError).toBeUndefined();
    const blind = await keyWith(["sessions:read"]);
    await using other = await connected(transport(blind));
    await expect(other.client.listResources()).rejects.toThrow(/tasks:read/);
  });

  it("does not show another user's task", async () => {
    const { id } = await concierge.client.start("echo mine");
    const key = await keyWith(["tasks:read", "tasks:write"], "somebody");
    await using mcp = await connected(transport(key));
    for (const tool of ["get_task", "stop_task", "get_output"])
      expect(await mcp.call(tool, { taskId: id })).toMatchObject({
        isError: true,
        text: expect.stringMatching(/^not_found: .*list_tasks/),
      });
    const continued = await mcp.call("continue_task", { taskId: id, prompt: "true" });
    expect(continued.text).toMatch(/^not_found/);
    await expect(mcp.client.readResource({ uri: `concierge://tasks/${id}/output` })).rejects.toThrow(
      /no resource/,
    );
    expect((await mcp.call("list_tasks")).data).toMatchObject({ items: [] });
    await concierge.client.ended(id);
  });

  it("says what is wrong with bad arguments", async () => {
    await using mcp = await connected(transport(concierge.apiKey));
    for (const [tool, args, expected] of badCalls) {
      const { isError, text } = await mcp.call(tool, args);
      expect([isError, text]).toEqual([true, expect.stringMatching(expected)]);
    }
  });

  it("refuses a tool and a resource that do not exist", async () => {
    await using mcp = await connected(transport(concierge.apiKey));
    await expect(mcp.client.callTool({ name: "dance" })).rejects.toThrow(/no tool dance/);
    await expect(mcp.client.readResource({ uri: "concierge://tasks/x/output" })).rejects.toThrow(
      /no resource/,
    );
  });
});

describe("POST /mcp", () => {
  const send = (init: RequestInit & { headers?: Record<string, string> }) =>
    fetch(new URL("/mcp", concierge.url), {
      method: "POST",
      ...init,
      headers: {
        authorization: `Bearer ${concierge.apiKey}`,
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        ...init.headers,
      },
    });
  const list = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });

  it("answers without an initialize before it, so any process can answer", async () => {
    const response = await send({ body: list });
    expect(response.status).toBe(200);
    expect(await response.text()).toContain('"start_task"');
    expect(response.headers.get("mcp-session-id")).toBeNull();
  });

  it("needs a key", async () => {
    const response = await send({ body: list, headers: { authorization: "" } });
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toBe("Bearer");
  });

  it.each(["GET", "DELETE", "PUT"])("is the only method: %s is 405", async (method) => {
    const response = await send({ method });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
  });

  it.each([
    ["http://evil.test", 403],
    ["null", 403],
    ["http://localhost.evil.test", 403],
    ["http://localhost:5173", 200],
  ])("from a page of %s is answered with %i", async (origin, status) => {
    const response = await send({ body: list, headers: { origin } });
    expect(response.status).toBe(status);
    await response.body?.cancel();
  });

  it("refuses a body that is too large, is not JSON, or is no message", async () => {
    expect((await send({ body: `"${"x".repeat(1_100_000)}"` })).status).toBe(413);
    expect((await send({ body: "{" })).status).toBe(400);
    expect((await send({ body: "{}" })).status).toBe(400);
    expect((await send({ body: list, headers: { "content-type": "text/plain" } })).status).toBe(415);
    expect((await send({ body: list, headers: { accept: "text/html" } })).status).toBe(406);
  });

  it("accepts a notification with an empty answer", async () => {
    const body = JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" });
    const response = await send({ body });
    expect([response.status, await response.text()]).toEqual([202, ""]);
  });
});
