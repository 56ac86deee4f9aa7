/**
 * Uses Concierge's MCP tools as an agent would: starts a task, prints its progress, reads its output and stops another.
 * Needs CONCIERGE_URL and CONCIERGE_API_KEY.
 */
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { CONCIERGE_URL: url = "http://127.0.0.1:4000", CONCIERGE_API_KEY: apiKey = "" } = process.env;
const client = new Client({ name: "mcp-example", version: "1.0.0" });
await client.connect(
  new StreamableHTTPClientTransport(new URL("/mcp", url), {
    requestInit: { headers: { authorization: `Bearer ${apiKey}` } },
  }),
);

const { tools } = await client.listTools();
console.log(`tools: ${tools.map(({ name }) => name).join(", ")}`);

const task = await call("start_task", {
  prompt: "echo working; sleep 2; echo done",
  agent: "shell",
  sessionKey: "mcp-example",
  waitMs: 50_000,
});
console.log(`${task.id} ${task.status}`);

const resource = await client.readResource({ uri: `concierge://tasks/${task.id}/output` });
for (const content of resource.contents) if ("text" in content) process.stdout.write(content.text);

const long = await call("continue_task", { taskId: task.id, prompt: "sleep 600" });
const stopped = await call("stop_task", { taskId: long.id });
console.log(`stop: ${stopped.status}`);
await client.close();

/** A tool's structured result. A refusal is an error with its code and what to do. */
async function call(name: string, args: Record<string, unknown>): Promise<{ id: string; status: string }> {
  const onprogress = ({ message }: { message?: string | undefined }) => console.log(`  ${message}`);
  const result = await client.callTool({ name, arguments: args }, undefined, { onprogress });
  if (result.isError) throw new Error(JSON.stringify(result.content));
  return result.structuredContent as { id: string; status: string };
}
