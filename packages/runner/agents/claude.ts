import type { Activity, AgentEvent, AgentUsage } from "../protocol.ts";
import type { AgentAdapter, AgentReader } from "./adapter.ts";
import {
  conversationIdOf,
  countOf,
  type Fields,
  fieldsOf,
  jsonOf,
  listOf,
  numberOf,
  parseFields,
  textOf,
} from "./json.ts";
import { npmPackage, npmRegistry } from "./npm.ts";
import { costUsd, type Tokens } from "./prices.ts";

const ARGS = ["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"];

/** Anthropic's Claude Code. */
export const claude: AgentAdapter = {
  needs: {
    hosts: ["api.anthropic.com", npmRegistry],
    secret: { name: "ANTHROPIC_API_KEY", header: "x-api-key" },
    baseUrl: "ANTHROPIC_BASE_URL",
  },
  program: "claude",
  install: npmPackage("@anthropic-ai/claude-code", "2.1.325"),
  start: ({ conversationId, isRoot }) => ({
    file: "claude",
    args: conversationId === undefined ? ARGS : [...ARGS, "--resume", conversationId],
    stdin: "prompt",
    env: {
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
      // It refuses to skip its permission checks as root where it is not told that this is a sandbox.
      ...(isRoot && { IS_SANDBOX: "1" }),
    },
    reader: createClaudeReader(),
  }),
};

/**
 * `system` (init, and a retry of a call that failed), `assistant` (one block of a message each), `user` (results of
 * tools), and at the end one `result`, the only one that has the true usage and cost.
 */
export function createClaudeReader(): AgentReader {
  const messages = new Map<string, { model: string; tokens: Tokens }>();
  const tools = new Set<string>();
  let conversationId: string | undefined;
  let final: AgentUsage | undefined;
  let waitsForModel = false;

  function readAssistant(message: Fields): AgentEvent[] {
    waitsForModel = true;
    // Each block of a message comes with the usage of all of it.
    messages.set(textOf(message.id), { model: textOf(message.model), tokens: tokensOf(message.usage) });
    return listOf(message.content).flatMap((block): AgentEvent[] => {
      if (block.type === "text") return [{ kind: "text", text: textOf(block.text) }];
      if (block.type !== "tool_use") return [];
      tools.add(textOf(block.id));
      return [{ kind: "tool_use", name: textOf(block.name), input: jsonOf(block.input) }];
    });
  }

  function readUser(message: Fields): AgentEvent[] {
    return listOf(message.content).flatMap((block): AgentEvent[] => {
      if (block.type !== "tool_result") return [];
      tools.delete(textOf(block.tool_use_id));
      return [{ kind: "tool_result", ok: block.is_error !== true, text: contentOf(block.content) }];
    });
  }

  function readSystem({ subtype }: Fields): void {
    if (subtype === "init") waitsForModel = true;
    // Between two tries nobody works on anything: a model that does not answer is silence.
    if (subtype === "api_retry") waitsForModel = false;
  }

  function readResult(event: Fields): AgentEvent[] {
    waitsForModel = false;
    tools.clear();
    final = { ...counted(tokensOf(event.usage)), costUsd: costOf(event) };
    const text = textOf(event.result) || joined(event.errors);
    return [{ kind: "result", ok: event.is_error !== true, text }];
  }

  return {
    read(line) {
      const event = parseFields(line);
      if (event === undefined) return [];
      // A result alone names the conversation that was asked for, whether there is one or not.
      if (event.type !== "result") conversationId = conversationIdOf(event.session_id) ?? conversationId;
      switch (event.type) {
        case "system":
          readSystem(event);
          return [];
        case "assistant":
          return readAssistant(fieldsOf(event.message));
        case "user":
          return readUser(fieldsOf(event.message));
        case "result":
          return readResult(event);
        default:
          return [];
      }
    },
    activity(): Activity {
      if (tools.size > 0) return "tool";
      return waitsForModel ? "model" : "none";
    },
    usage: () => final ?? running([...messages.values()]),
    conversationId: () => conversationId,
  };
}

/** Not more than it will be: a message's output is counted when it has begun. A model without a price costs nothing. */
function running(messages: readonly { model: string; tokens: Tokens }[]): AgentUsage | undefined {
  if (messages.length === 0) return undefined;
  const usage = { inputTokens: 0, outputTokens: 0, costUsd: 0 };
  for (const { model, tokens } of messages) {
    const { inputTokens, outputTokens } = counted(tokens);
    usage.inputTokens += inputTokens;
    usage.outputTokens += outputTokens;
    usage.costUsd += costUsd(model, tokens) ?? 0;
  }
  return usage;
}

/** In a conversation that is gone on with, `total_cost_usd` is that of all its turns. */
function costOf(event: Fields): number {
  const byModel = event.model_usage_since_last_result;
  if (byModel === undefined) return numberOf(event.total_cost_usd);
  return Object.values(fieldsOf(byModel)).reduce<number>(
    (total, usage) => total + numberOf(fieldsOf(usage).costUSD),
    0,
  );
}

function tokensOf(value: unknown): Tokens {
  const usage = fieldsOf(value);
  return {
    input: countOf(usage.input_tokens),
    cached: countOf(usage.cache_read_input_tokens),
    cacheWrite: countOf(usage.cache_creation_input_tokens),
    output: countOf(usage.output_tokens),
  };
}

function counted({ input, cached, cacheWrite, output }: Tokens) {
  return { inputTokens: input + cached + cacheWrite, outputTokens: output };
}

/** A tool's result is a text, or blocks of which some are texts. */
function contentOf(content: unknown): string {
  if (typeof content === "string") return content;
  return listOf(content)
    .map(({ text }) => textOf(text))
    .join("");
}

function joined(errors: unknown): string {
  return Array.isArray(errors) ? errors.map(textOf).join("\n") : "";
}
