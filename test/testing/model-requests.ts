import type { IncomingHttpHeaders } from "node:http";

/** What an agent sent to its model, for either API. */
export interface ModelRequest {
  api: "anthropic" | "openai";
  model: string;
  key: string | undefined;
  /** The conversation so far, by speaker. */
  user: string[];
  assistant: string[];
  toolResults: string[];
  tools: string[];
  body: Record<string, unknown>;
}

type Fields = Record<string, unknown>;

export function readAnthropic(body: Fields, headers: IncomingHttpHeaders): ModelRequest {
  const messages = list(body.messages);
  const blocksOf = (role: string) =>
    messages
      .filter((message) => message.role === role)
      .flatMap(({ content }) =>
        typeof content === "string" ? [{ type: "text", text: content }] : list(content),
      );
  return {
    api: "anthropic",
    model: String(body.model),
    key: header(headers["x-api-key"]),
    user: textsOf(blocksOf("user"), "text"),
    assistant: textsOf(blocksOf("assistant"), "text"),
    toolResults: blocksOf("user")
      .filter(({ type }) => type === "tool_result")
      .map(({ content }) =>
        typeof content === "string" ? content : textsOf(list(content), "text").join(""),
      ),
    tools: list(body.tools).map(({ name }) => String(name)),
    body,
  };
}

export function readOpenai(body: Fields, headers: IncomingHttpHeaders): ModelRequest {
  const items = list(body.input);
  const said = (role: string, type: string) =>
    items.filter((item) => item.role === role).flatMap((item) => textsOf(list(item.content), type));
  return {
    api: "openai",
    model: String(body.model),
    key: header(headers.authorization)?.replace(/^Bearer /, ""),
    user: said("user", "input_text"),
    assistant: said("assistant", "output_text"),
    toolResults: items
      .filter(({ type }) => type === "function_call_output" || type === "custom_tool_call_output")
      .map(({ output }) => (typeof output === "string" ? output : JSON.stringify(output))),
    tools: [...list(body.tools), ...items.flatMap((item) => list(item.tools))].flatMap(namesOf),
    body,
  };
}

/** Tools come alone, or in a namespace. */
function namesOf(tool: Fields): string[] {
  return tool.tools === undefined ? [String(tool.name ?? tool.type)] : list(tool.tools).flatMap(namesOf);
}

function textsOf(blocks: readonly Fields[], type: string): string[] {
  return blocks.filter((block) => block.type === type).map(({ text }) => String(text));
}

function list(value: unknown): Fields[] {
  return Array.isArray(value) ? (value as Fields[]) : [];
}

function header(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}
