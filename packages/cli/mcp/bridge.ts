import { once } from "node:events";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import {
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type RequestId,
} from "@modelcontextprotocol/sdk/types.js";

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
  const underWay = new Set<Promise<void>>();
  const initializing = new Set<RequestId>();

  const pass = async (message: JSONRPCMessage): Promise<void> => {
    try {
      if (isJSONRPCRequest(message) && message.method === "initialize") initializing.add(message.id);
      await http.send(message);
    } catch (error) {
      process.stderr.write(`concierge: ${explain(error, url)}\n`);
      if (isJSONRPCRequest(message)) await stdio.send(failed(message.id, explain(error, url)));
    }
  };
  stdio.onmessage = (message) => {
    const passing = pass(message).finally(() => underWay.delete(passing));
    underWay.add(passing);
  };
  stdio.onerror = ({ message }) => void process.stderr.write(`concierge: ${message}\n`);
  http.onmessage = (message) => {
    if (isJSONRPCResultResponse(message) && initializing.delete(message.id)) {
      const { protocolVersion } = message.result;
      if (typeof protocolVersion === "string") http.setProtocolVersion(protocolVersion);
    }
    void stdio.send(message);
  };

  await http.start();
  const ended = once(process.stdin, "close");
  await stdio.start();
  await ended;
  await Promise.all(underWay);
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
