import { once } from "node:events";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import {
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type RequestId,
} from "@modelcontextprotocol/sdk/types.js";

const lastAnswersMs = 60_000;

/** The code of an error that the server never saw. */
const connectionFailed = -32000;

/**
 * Passes messages between an MCP client on stdin and stdout and the server's `/mcp`, until stdin ends. It adds the key
 * and understands nothing but the protocol version, which HTTP repeats in a header.
 */
export async function bridge({ url, key }: { url: string; key: string }): Promise<void> {
  const stdio = new StdioServerTransport();
  const http = new StreamableHTTPClientTransport(new URL(`${url}/mcp`), {
    requestInit: { headers: { authorization: `Bearer ${key}` } },
  });
  /** Requests without an answer, and what waits until there are none. */
  const unanswered = new Map<RequestId, string>();
  let onAnswered = () => {};
  const answered = (id: RequestId): string | undefined => {
    const method = unanswered.get(id);
    unanswered.delete(id);
    if (unanswered.size === 0) onAnswered();
    return method;
  };

  const pass = async (message: JSONRPCMessage): Promise<void> => {
    try {
      if (isJSONRPCRequest(message)) unanswered.set(message.id, message.method);
      await http.send(message);
    } catch (error) {
      process.stderr.write(`concierge: ${explain(error, url)}\n`);
      if (!isJSONRPCRequest(message)) return;
      await stdio.send(failed(message.id, explain(error, url)));
      answered(message.id);
    }
  };
  stdio.onmessage = (message) => void pass(message);
  stdio.onerror = ({ message }) => void process.stderr.write(`concierge: ${message}\n`);
  http.onmessage = async (message) => {
    await stdio.send(message);
    if (!("id" in message) || message.id === undefined || "method" in message) return;
    const isInitialized = answered(message.id) === "initialize" && isJSONRPCResultResponse(message);
    const version = isInitialized ? message.result.protocolVersion : undefined;
    if (typeof version === "string") http.setProtocolVersion(version);
  };

  await http.start();
  const ended = once(process.stdin, "close");
  await stdio.start();
  await ended;
  // The last requests are still answered, unless the server takes too long.
  if (unanswered.size > 0)
    await new Promise<void>((resolve) => {
      onAnswered = resolve;
      setTimeout(resolve, lastAnswersMs).unref();
    });
  await http.close();
}

function failed(id: RequestId, message: string): JSONRPCMessage {
  return { jsonrpc: "2.0", id, error: { code: connectionFailed, message } };
}

function explain(error: unknown, url: string): string {
  const status = (error as { code?: unknown }).code;
  if (status === 401)
    return "The key is not valid. Store one with `concierge login`, or set CONCIERGE_API_KEY.";
  if (status === 404) return `${url} has no /mcp. Check --url, or update the server.`;
  const message = error instanceof Error ? error.message : String(error);
  return typeof status === "number"
    ? `${url} answered ${status}: ${message}`
    : `${url} cannot be reached: ${message}. Check --url, or start a server with \`concierge dev\`.`;
}
