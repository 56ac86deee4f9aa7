import type { AgentEvent, AgentUsage } from "@concierge/protocol";
import type { AgentAdapter, AgentReader } from "./adapter.ts";
import {
  conversationIdOf,
  countOf,
  type Fields,
  fieldsOf,
  jsonOf,
  listOf,
  parseFields,
  textOf,
} from "./json.ts";

const baseArgs = ["-p", "--output-format", "stream-json", "--force"];

/** Cursor's CLI, implemented from its documentation. It was never run, because that needs a Cursor account. */
export const cursor: AgentAdapter = {
  needs: {
    hosts: ["api2.cursor.sh", "*.cursor.sh"],
    secret: { name: "CURSOR_API_KEY", header: "authorization", scheme: "Bearer", path: "/" },
  },
  program: "cursor-agent",
  install: {
    impossible:
      "it is not on npm; install it with SANDBOX_SETUP (curl https://cursor.com/install -fsS | bash), so that cursor-agent is on the PATH",
  },
  start: ({ conversationId }) => ({
    file: "cursor-agent",
    args: conversationId === undefined ? baseArgs : [...baseArgs, "--resume", conversationId],
    stdin: "prompt",
    reader: createCursorReader(),
  }),
};

/** Events: `system`, `user` (the prompt), `assistant`, `tool_call` (started, completed), and finally `result`. */
export function createCursorReader(): AgentReader {
  const tools = new Set<string>();
  let conversationId: string | undefined;
  let used: AgentUsage | undefined;
  let waitsForModel = false;

  function readTool(event: Fields): AgentEvent[] {
    const id = textOf(event.call_id);
    const { name, args, result } = toolOf(fieldsOf(event.tool_call));
    if (event.subtype === "started") {
      tools.add(id);
      return [{ kind: "tool_use", name, input: jsonOf(args) }];
    }
    if (event.subtype !== "completed") return [];
    tools.delete(id);
    waitsForModel = true;
    return [resultOf(result)];
  }

  function readResult(event: Fields): AgentEvent[] {
    waitsForModel = false;
    tools.clear();
    const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = fieldsOf(event.usage);
    // Cursor does not report its cost.
    used = {
      inputTokens: countOf(inputTokens) + countOf(cacheReadTokens) + countOf(cacheWriteTokens),
      outputTokens: countOf(outputTokens),
      costUsd: 0,
    };
    return [{ kind: "result", ok: event.is_error !== true, text: textOf(event.result) }];
  }

  return {
    read(line) {
      const event = parseFields(line);
      if (event === undefined) return [];
      conversationId = conversationIdOf(event.session_id) ?? conversationId;
      switch (event.type) {
        case "user":
        case "thinking":
          waitsForModel = true;
          return [];
        case "assistant":
          waitsForModel = true;
          return listOf(fieldsOf(event.message).content)
            .filter(({ type }) => type === "text")
            .map(({ text }) => ({ kind: "text", text: textOf(text) }));
        case "tool_call":
          return readTool(event);
        case "result":
          return readResult(event);
        default:
          return [];
      }
    },
    activity() {
      if (tools.size > 0) return "tool";
      return waitsForModel ? "model" : "none";
    },
    usage: () => used,
    conversationId: () => conversationId,
  };
}

/** `{readToolCall: {args, result}}`, or `{function: {name, arguments}}`. */
function toolOf(call: Fields): { name: string; args: unknown; result: Fields } {
  const [key = "", value] = Object.entries(call)[0] ?? [];
  const tool = fieldsOf(value);
  const isFunction = key === "function";
  return {
    name: isFunction ? textOf(tool.name) : key.replace(/ToolCall$/, ""),
    args: isFunction ? tool.arguments : tool.args,
    result: fieldsOf(tool.result),
  };
}

/** `{success: …}`, or another key for a failure. */
function resultOf(result: Fields): AgentEvent {
  const [outcome = "success", value] = Object.entries(result)[0] ?? [];
  const fields = fieldsOf(value);
  const text = textOf(fields.content) || textOf(fields.stdout) || jsonOf(value);
  return { kind: "tool_result", ok: outcome === "success", text };
}
