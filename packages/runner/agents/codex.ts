import { join } from "node:path";
import type { AgentEvent, AgentUsage } from "@concierge/protocol";
import type { AgentAdapter, AgentReader } from "./adapter.ts";
import { createRollout, type Rollout, subtractTokens, tokensOf } from "./codex-rollout.ts";
import { conversationIdOf, type Fields, fieldsOf, jsonOf, listOf, parseFields, textOf } from "./json.ts";
import { npmPackage, npmRegistry } from "./npm.ts";
import { costUsd, highestCostUsd, type Tokens } from "./prices.ts";

/** Codex's own sandbox needs privileges that it does not have here. The outer sandbox isolates it. */
const baseArgs = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];

/** OpenAI's Codex. */
export const codex: AgentAdapter = {
  needs: {
    hosts: ["api.openai.com", npmRegistry],
    secret: { name: "OPENAI_API_KEY", header: "authorization", scheme: "Bearer", path: "/v1/" },
    // Its default address ends with /v1.
    baseUrl: { name: "OPENAI_BASE_URL", path: "/" },
  },
  program: "codex",
  install: npmPackage("@openai/codex", "0.166.0"),
  start({ conversationId, env, home }) {
    const codexHome = join(home, "codex");
    const command =
      conversationId === undefined ? ["exec", ...baseArgs] : ["exec", "resume", ...baseArgs, conversationId];
    return {
      file: "codex",
      args: [...command, "-"],
      stdin: "prompt",
      env: { CODEX_HOME: codexHome },
      files: {
        [join(codexHome, "config.toml")]: configOf(env.OPENAI_BASE_URL || "https://api.openai.com/v1"),
      },
      reader: createCodexReader(createRollout(join(codexHome, "sessions"), conversationId)),
    };
  },
};

/** Codex's built-in provider would need the key in a file. This one reads it from the environment. */
function configOf(baseUrl: string): string {
  return `model_provider = "concierge"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.concierge]
name = "OpenAI"
base_url = ${JSON.stringify(baseUrl)}
env_key = "OPENAI_API_KEY"
wire_api = "responses"
`;
}

/**
 * Events: `thread.started`, `turn.started`, `item.started`, `item.completed`, and finally `turn.completed` with the usage
 * of all turns of the thread, or `turn.failed`. The answer has no event of its own: it is the last message.
 */
export function createCodexReader(rollout?: Rollout): AgentReader {
  const before = rollout?.tokens();
  const tools = new Set<string>();
  let conversationId: string | undefined;
  let total: Tokens | undefined;
  let waitsForModel = false;
  let answer = "";

  function readItem(item: Fields, isCompleted: boolean): AgentEvent[] {
    const id = textOf(item.id);
    waitsForModel = true;
    switch (item.type) {
      case "agent_message":
        if (!isCompleted) return [];
        answer = textOf(item.text);
        return [{ kind: "text", text: answer }];
      case "command_execution":
        return readTool(id, isCompleted, "command", item.command, {
          ok: item.exit_code === 0,
          text: textOf(item.aggregated_output),
        });
      case "file_change":
        return readTool(id, isCompleted, "file_change", item.changes, {
          ok: item.status === "completed",
          text: listOf(item.changes)
            .map(({ kind, path }) => `${textOf(kind)} ${textOf(path)}`)
            .join("\n"),
        });
      case "mcp_tool_call":
        return readTool(id, isCompleted, `${textOf(item.server)}.${textOf(item.tool)}`, item.arguments, {
          ok: item.status === "completed",
          text: textOf(fieldsOf(item.error).message) || jsonOf(item.result),
        });
      case "web_search":
        return readTool(id, isCompleted, "web_search", item.query, { ok: true, text: "" });
      default:
        return [];
    }
  }

  function readTool(
    id: string,
    isCompleted: boolean,
    name: string,
    input: unknown,
    result: { ok: boolean; text: string },
  ): AgentEvent[] {
    const isKnown = tools.has(id);
    const use: AgentEvent[] = isKnown ? [] : [{ kind: "tool_use", name, input: jsonOf(input) }];
    if (!isCompleted) {
      tools.add(id);
      return use;
    }
    tools.delete(id);
    return [...use, { kind: "tool_result", ...result }];
  }

  function end(ok: boolean, text: string): AgentEvent[] {
    waitsForModel = false;
    tools.clear();
    return [{ kind: "result", ok, text }];
  }

  function usage(): AgentUsage | undefined {
    const now = total ?? rollout?.tokens();
    if (now === undefined) return undefined;
    const own = subtractTokens(now, before);
    return {
      inputTokens: own.input + own.cached + own.cacheWrite,
      outputTokens: own.output,
      costUsd: costUsd(rollout?.model() ?? "", own) ?? highestCostUsd(own),
    };
  }

  return {
    read(line) {
      const event = parseFields(line);
      switch (event?.type) {
        case "thread.started":
          conversationId = conversationIdOf(event.thread_id) ?? conversationId;
          if (conversationId !== undefined) rollout?.follow(conversationId);
          return [];
        case "turn.started":
          waitsForModel = true;
          return [];
        case "item.started":
        case "item.updated":
          return readItem(fieldsOf(event.item), false);
        case "item.completed":
          return readItem(fieldsOf(event.item), true);
        case "turn.completed":
          total = tokensOf(event.usage);
          return end(true, answer);
        case "turn.failed":
          return end(false, textOf(fieldsOf(event.error).message));
        case "error":
          // Codex retries later. Until then it does no work, so its silence counts.
          waitsForModel = false;
          return [];
        default:
          return [];
      }
    },
    activity() {
      if (tools.size > 0) return "tool";
      return waitsForModel ? "model" : "none";
    },
    usage,
    conversationId: () => conversationId,
  };
}
