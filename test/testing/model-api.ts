import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type ModelRequest, readAnthropic, readOpenai } from "./model-requests.ts";

export interface Tokens {
  input: number;
  output: number;
}

/** What a model answers next: text at once or in pieces, a command to run, or a malformed answer. */
export type Answer =
  | { text: string; everyMs?: number; tokens?: Tokens }
  | { shell: string; tokens?: Tokens }
  /** Only for Anthropic's API. */
  | { tool: string; input: object; tokens?: Tokens }
  | { status: number }
  | "hang"
  | "reset";

const TOKENS: Tokens = { input: 100, output: 7 };

/** The model's API on loopback, Anthropic's Messages and OpenAI's Responses. Records the requests. */
export class ModelApi implements AsyncDisposable {
  readonly requests: ModelRequest[] = [];
  /** Called for each request, in order. */
  answer: (request: ModelRequest) => Answer = () => ({ text: "ok" });
  private server: Server | undefined;
  private port = 0;
  private served = 0;

  static async start(): Promise<ModelApi> {
    const api = new ModelApi();
    await api.up();
    return api;
  }

  /** The worker's environment, so that both agents talk to this API. */
  get environment(): Record<string, string> {
    return {
      ANTHROPIC_BASE_URL: this.url,
      ANTHROPIC_API_KEY: "sk-ant-stub-0123456789",
      OPENAI_BASE_URL: `${this.url}/v1`,
      OPENAI_API_KEY: "sk-stub-0123456789",
    };
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Answers in this order; the last one repeats. */
  script(...answers: [Answer, ...Answer[]]): void {
    let nth = 0;
    this.answer = () => answers[Math.min(nth++, answers.length - 1)] ?? "hang";
  }

  /** The requests since then: each test looks at its own. */
  since(count: number): ModelRequest[] {
    return this.requests.slice(count);
  }

  async up(): Promise<void> {
    const server = createServer((request, response) => void this.serve(request, response).catch(() => {}));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.port, "127.0.0.1", resolve);
    });
    this.port = (server.address() as AddressInfo).port;
    this.server = server;
  }

  /** From here on connections are refused. */
  async down(): Promise<void> {
    const server = this.server;
    this.server = undefined;
    if (server === undefined) return;
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.down();
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = parse(await readBody(request));
    const path = new URL(request.url ?? "/", this.url).pathname;
    if (path === "/v1/messages/count_tokens") return json(response, 200, { input_tokens: TOKENS.input });
    const speak = speakers[path];
    if (speak === undefined) return json(response, 404, failure(404));

    const asked = speak.read(body, request.headers);
    this.requests.push(asked);
    const answer = this.answer(asked);
    if (answer === "hang") return;
    if (answer === "reset") return void response.destroy();
    if ("status" in answer) return json(response, answer.status, failure(answer.status));
    response.writeHead(200, { "content-type": "text/event-stream" });
    const write: Write = (type, data) => {
      response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
    };
    const isGone = () => response.destroyed;
    await speak.answer({ number: ++this.served, asked, answer, write, isGone });
    response.end();
  }
}

type Write = (type: string, data: Record<string, unknown>) => void;

interface Speech {
  number: number;
  asked: ModelRequest;
  answer: Extract<Answer, { text: string } | { shell: string } | { tool: string }>;
  write: Write;
  isGone(): boolean;
}

interface Speaker {
  read(body: Record<string, unknown>, headers: IncomingMessage["headers"]): ModelRequest;
  answer(speech: Speech): Promise<void>;
}

const speakers: Record<string, Speaker> = {
  "/v1/messages": { read: readAnthropic, answer: answerAnthropic },
  "/v1/responses": { read: readOpenai, answer: answerOpenai },
};

async function answerAnthropic({ number, asked, answer, write, isGone }: Speech): Promise<void> {
  const { input, output } = answer.tokens ?? TOKENS;
  const usage = { input_tokens: input, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
  const call = toolUse(answer);
  write("message_start", {
    message: {
      id: `msg_${number}`,
      type: "message",
      role: "assistant",
      model: asked.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { ...usage, output_tokens: 1 },
    },
  });
  if (call) {
    const block = { type: "tool_use", id: `toolu_${number}`, name: call.name, input: {} };
    const partial = JSON.stringify(call.input);
    write("content_block_start", { index: 0, content_block: block });
    write("content_block_delta", { index: 0, delta: { type: "input_json_delta", partial_json: partial } });
  } else if ("text" in answer) {
    write("content_block_start", { index: 0, content_block: { type: "text", text: "" } });
    for await (const text of words(answer, isGone))
      write("content_block_delta", { index: 0, delta: { type: "text_delta", text } });
  }
  write("content_block_stop", { index: 0 });
  const delta = { stop_reason: call ? "tool_use" : "end_turn", stop_sequence: null };
  write("message_delta", { delta, usage: { output_tokens: output } });
  write("message_stop", {});
}

function toolUse(answer: Speech["answer"]): { name: string; input: object } | undefined {
  if ("tool" in answer) return { name: answer.tool, input: answer.input };
  if (!("shell" in answer)) return undefined;
  return { name: "Bash", input: { command: answer.shell, description: "As scripted" } };
}

async function answerOpenai({ number, asked, answer, write, isGone }: Speech): Promise<void> {
  const { input, output } = answer.tokens ?? TOKENS;
  const id = `resp_${number}`;
  write("response.created", { response: { id } });
  const text = "text" in answer ? answer.text : "";
  const item = "shell" in answer ? toolCall(number, asked, answer.shell) : message(number, text);
  write("response.output_item.added", { output_index: 0, item: { ...item, content: [] } });
  if ("text" in answer) {
    for await (const delta of words(answer, isGone))
      write("response.output_text.delta", { item_id: item.id, output_index: 0, content_index: 0, delta });
  }
  write("response.output_item.done", { output_index: 0, item });
  const usage = {
    input_tokens: input,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + output,
  };
  write("response.completed", { response: { id, usage } });
}

/** A model with the tool `exec` composes its commands in JavaScript; older ones call the shell. */
function toolCall(number: number, { tools }: ModelRequest, command: string) {
  const call = { id: `fc_${number}`, call_id: `call_${number}` };
  if (tools.includes("exec")) {
    const input = `const { output } = await tools.exec_command({ cmd: ${JSON.stringify(command)} }); text(output);`;
    return { ...call, type: "custom_tool_call", name: "exec", input };
  }
  const args = JSON.stringify({ cmd: command });
  return { ...call, type: "function_call", name: "exec_command", arguments: args };
}

function message(number: number, text: string) {
  const content = [{ type: "output_text", text }];
  return { type: "message", id: `msg_${number}`, role: "assistant", content };
}

async function* words(
  { text, everyMs }: Extract<Answer, { text: string }>,
  isGone: () => boolean,
): AsyncGenerator<string> {
  if (everyMs === undefined) return yield text;
  for (const word of text.split(/(?<= )/)) {
    if (isGone()) return;
    yield word;
    await sleep(everyMs);
  }
}

function failure(status: number) {
  const type = status === 404 ? "not_found_error" : "api_error";
  return { type: "error", error: { type, message: `the stub answers ${status}` } };
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}
