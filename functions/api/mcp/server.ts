import {
  AppError,
  type Caller,
  type EndingDeps,
  type ErrorCode,
  getTask,
  hasScope,
  missingScope,
} from "@concierge/core";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import {
  CallToolRequestSchema,
  type CallToolResult,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  ErrorCode as RpcCode,
} from "@modelcontextprotocol/sdk/types.js";
import * as z from "zod/mini";
import manifest from "../../package.json" with { type: "json" };
import { toAppError, toInvalid } from "../problem.ts";
import { readTail } from "./output.ts";
import { type Tool, type ToolContext, tools } from "./tools.ts";

const instructions =
  "Concierge runs coding agents in sandboxes. Start a task with start_task, follow it with get_task and waitMs, read its output with get_output, send the next prompt with continue_task, and end it with stop_task.";

/** Time limit of a call to the provider by any tool but exec, as for an HTTP request. */
const callMs = 25_000;
const resourceMaxBytes = 1_000_000;
const resourcesListed = 20;
const textType = "text/plain";
const uriPattern = /^concierge:\/\/tasks\/(task_[0-9a-z]{26})\/output$/;

/** What to do about an error. The detail says what is wrong. */
const nextSteps: Partial<Record<ErrorCode, string>> = {
  invalid_request: "Correct the arguments and call the tool again.",
  invalid_cursor: "Call the tool without a cursor to start at the first page.",
  missing_scope: "Ask the user for a key with this scope. Do not retry with this key.",
  forbidden: "Ask the user for a key that may do this. Do not retry with this key.",
  not_found: "Check the id: list_tasks and list_sessions show what exists.",
  session_busy: "Wait for the other turn with get_task, stop it with stop_task, or use another sessionKey.",
  task_active: "Wait with get_task and waitMs, or end the turn with stop_task.",
  finalizing: "The push is already granted, so the task ends by itself: use get_task with waitMs.",
  turn_limit: "Start a new task with start_task.",
  session_not_ready: "Start a task in this session first, then try again.",
  idempotency_conflict: "Use another idempotencyKey for a different request.",
  rate_limited: "Wait as long as retryAfterMs says, then call again, less often.",
  task_limit: "Wait for a task to end with get_task, or stop one that is not needed.",
  queue_limit: "Wait for queued tasks to start, or stop one that is not needed.",
  spend_limit: "Tell the user that today's spend limit is reached. Do not retry today.",
  no_room: "All sandboxes are in use. Wait as long as retryAfterMs says, or stop a task that is not needed.",
  provider_unavailable: "Wait as long as retryAfterMs says and try again.",
  internal: "Try again once. If it fails again, tell the user.",
};

/** A server for one request. Nothing is kept between requests, so any process can answer the next one. */
export function createServer(deps: EndingDeps, caller: Caller, stop: ToolContext["stop"]): Server {
  const server = new Server(
    { name: "concierge", title: "Concierge", version: manifest.version },
    { capabilities: { tools: {}, resources: {} }, instructions },
  );

  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: tools.map(describe) }));

  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { sendNotification }) => {
    const tool = tools.find(({ name }) => name === params.name);
    if (!tool) throw new McpError(RpcCode.InvalidParams, `There is no tool ${params.name}.`);
    const progressToken = params._meta?.progressToken;
    let progress = 0;
    const notify: ToolContext["notify"] = async (message) => {
      if (progressToken === undefined) return;
      progress += 1;
      await sendNotification({
        method: "notifications/progress",
        params: { progressToken, progress, message },
      });
    };
    return await call(tool, { deps, userId: caller.userId, stop, notify }, params.arguments ?? {});
  });

  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [
      {
        uriTemplate: "concierge://tasks/{id}/output",
        name: "task-output",
        title: "A task's output",
        description: "What the agent of a task printed, in all turns",
        mimeType: textType,
      },
    ],
  }));

  server.setRequestHandler(ListResourcesRequestSchema, async () => {
    requireRead();
    const { items } = await deps.store.listTasks(caller.userId, { limit: resourcesListed });
    return {
      resources: items.map(({ id, state }) => ({
        uri: `concierge://tasks/${id}/output`,
        name: id,
        description: `The output of a task that is ${state.status}`,
        mimeType: textType,
      })),
    };
  });

  server.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }) => {
    requireRead();
    const [, id] = uriPattern.exec(uri) ?? [];
    const task = id && (await getTask(deps, caller.userId, id).catch(rethrowUnless("not_found")));
    // The code that the specification has for an unknown resource.
    if (!task) throw new McpError(-32002, `There is no resource ${uri}.`, { uri });
    const { text } = await readTail(deps, task, { maxBytes: resourceMaxBytes });
    return { contents: [{ uri, mimeType: textType, text }] };
  });

  return server;

  function requireRead(): void {
    if (!hasScope(caller, "tasks:read"))
      throw new McpError(RpcCode.InvalidRequest, missingScope("tasks:read").message);
  }

  async function call(tool: Tool, context: ToolContext, args: unknown): Promise<CallToolResult> {
    try {
      if (!hasScope(caller, tool.scope)) throw missingScope(tool.scope);
      const input = await z.safeParseAsync(tool.input, args);
      if (!input.success) throw toInvalid(input.error);
      const run = () => tool.run(context, input.data);
      const result = tool.name === "exec" ? await run() : await deps.limitTime(callMs, run);
      // A client that does not know structured results reads the text.
      return { structuredContent: { ...result }, content: [{ type: "text", text: JSON.stringify(result) }] };
    } catch (error) {
      return toToolError(error);
    }
  }
}

/** An error that the model sees, with its code and what to do, so that it can act on it. */
function toToolError(error: unknown): CallToolResult {
  const { code, message, extra } = toAppError(error);
  const next = nextSteps[code];
  const text = `${code}: ${message}${next ? ` ${next}` : ""}`;
  const problem = { code, detail: message, ...extra, ...(next && { next }) };
  return { isError: true, content: [{ type: "text", text }], _meta: { "concierge/problem": problem } };
}

/** No references into other schemas: some clients do not resolve them. */
const inline = z.registry<never>();

function describe({ name, description, input, output, annotations }: Tool) {
  const schemaOf = (schema: z.core.$ZodType, io: "input" | "output") =>
    z.toJSONSchema(schema, { io, metadata: inline as never, unrepresentable: "any" }) as { type: "object" };
  return {
    name,
    title: annotations.title,
    description,
    inputSchema: schemaOf(input, "input"),
    outputSchema: schemaOf(output, "output"),
    annotations,
  };
}

function rethrowUnless(code: ErrorCode) {
  return (error: unknown): undefined => {
    if (!(error instanceof AppError) || error.code !== code) throw error;
    return undefined;
  };
}
