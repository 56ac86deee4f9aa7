import type { Activity, AgentEvent, AgentUsage } from "@concierge/protocol";
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

const baseArgs = ["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"];

/** Anthropic's Claude Code. */
export const claude: AgentAdapter = {
  needs: {
    hosts: ["api.anthropic.com", npmRegistry],
    secret: { name: "ANTHROPIC_API_KEY", header: "x-api-key", path: "/v1/" },
    baseUrl: { name: "ANTHROPIC_BASE_URL", path: "/v1/" },
  },
  program: "claude",
  install: npmPackage("@anthropic-ai/claude-code", "2.1.325"),
  start: ({ conversationId, isRoot }) => ({
    file: "claude",
    args: conversationId === undefined ? baseArgs : [...baseArgs, "--resume", conversationId],
    stdin: "prompt",
    env: {
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
      // As root, it skips its permission checks only in a declared sandbox.
      ...(isRoot && { IS_SANDBOX: "1" }),
    },
    reader: createClaudeReader(),
  }),
};

/**
 * Events: `system` (init, and the retry of a failed call), `assistant` (one block of a message each), `user` (tool
 * results), and finally one `result`, which alone has the exact usage and cost.
 */
export function createClaudeReader(): AgentReader {
  const messages = new Map<string, { model: string; tokens: Tokens }>();
  const tools = new Set<string>();
  let conversationId: string | undefined;
  let final: AgentUsage | undefined;
  let waitsForModel = false;

  function readAssistant(message: Fields): AgentEvent[] {
    waitsForModel = true;
    // Each block carries the usage of its whole message.
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
    // Between two retries the agent does no work, so its silence counts.
    if (subtype === "api_retry") waitsForModel = false;
  }

  function readResult(event: Fields): AgentEvent[] {
    waitsForModel = false;
    tools.clear();
    final = { ...usageOf(tokensOf(event.usage)), costUsd: costOf(event) };
    const text = textOf(event.result) || joinErrors(event.errors);
    return [{ kind: "result", ok: event.is_error !== true, text }];
  }

  return {
    read(line) {
      const event = parseFields(line);
      if (event === undefined) return [];
      // A `result` repeats the requested conversation, even if it does not exist.
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
    usage: () => final ?? usageSoFar([...messages.values()]),
    conversationId: () => conversationId,
  };
}

/** A lower bound: a message's output is counted when it begins, and a model without a price costs nothing. */
function usageSoFar(messages: readonly { model: string; tokens: Tokens }[]): AgentUsage | undefined {
  if (messages.length === 0) return undefined;
  const usage = { inputTokens: 0, outputTokens: 0, costUsd: 0 };
  for (const { model, tokens } of messages) {
    const { inputTokens, outputTokens } = usageOf(tokens);
    usage.inputTokens += inputTokens;
    usage.outputTokens += outputTokens;
    usage.costUsd += costUsd(model, tokens) ?? 0;
  }
  return usage;
}

/** In a resumed conversation, `total_cost_usd` includes the earlier turns. */
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

function usageOf({ input, cached, cacheWrite, output }: Tokens) {
  return { inputTokens: input + cached + cacheWrite, outputTokens: output };
}

/** A tool's result is a text, or a list of blocks, some of them texts. */
function contentOf(content: unknown): string {
  if (typeof content === "string") return content;
  return listOf(content)
    .map(({ text }) => textOf(text))
    .join("");
}

function joinErrors(errors: unknown): string {
  return Array.isArray(errors) ? errors.map(textOf).join("\n") : "";
}
