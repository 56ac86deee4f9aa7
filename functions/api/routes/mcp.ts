import { AppError, type EndingDeps, limits } from "@concierge/core";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { createServer } from "../mcp/server.ts";
import type { DocumentedRouter } from "../openapi/documented-router.ts";
import { isAllowedOrigin } from "../origins.ts";
import { stopRecorded } from "../stop.ts";

const keepAliveMs = 15_000;

/**
 * MCP over streamable HTTP, without sessions: each request has its own server. GET and DELETE, which only servers with
 * sessions have, are answered with 405 like any other missing method.
 */
export function registerMcp(app: DocumentedRouter, deps: EndingDeps): void {
  app.post("/mcp", async (c) => {
    // A page in a browser must not reach a local server through its user: see the specification on DNS rebinding.
    const origin = c.req.header("origin");
    if (origin !== undefined && !isAllowedOrigin(deps.config, origin))
      throw new AppError("forbidden", `Pages of ${origin} may not use this server.`);
    const server = createServer(deps, c.get("caller"), (taskId) => stopRecorded(deps, c, taskId));
    const transport = new WebStandardStreamableHTTPServerTransport({
      keepAliveMs,
      maxRequestBodySize: limits.bodyMaxBytes,
    });
    await server.connect(transport);
    return await transport.handleRequest(c.req.raw);
  });
}
