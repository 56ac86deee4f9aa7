import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import type { Context } from "hono";
import manifest from "../../package.json" with { type: "json" };
import { createDocument, type Info } from "../openapi/document.ts";
import type { DocumentedRouter, Route } from "../openapi/documented-router.ts";

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Concierge API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

const startScript = `SwaggerUIBundle({ url: "/openapi.json", dom_id: "#swagger-ui", persistAuthorization: true });\n`;

/** The paths of Swagger UI's files. */
export interface DocsFiles {
  css: string;
  script: string;
}

const info: Info = {
  title: "Concierge",
  version: manifest.version,
  description: "A serverless control plane for coding agents in sandboxes.",
};

/** The OpenAPI document and interactive docs, which load nothing from other hosts. */
export function registerDocs(
  app: DocumentedRouter,
  files: DocsFiles,
  routes: () => Promise<readonly Route[]>,
): void {
  app.get("/openapi.json", async (c) => c.json(createDocument(info, await routes())));
  app.get("/docs", (c) => c.html(page));
  app.get("/docs/start.js", (c) =>
    c.body(startScript, 200, { "content-type": "text/javascript; charset=utf-8" }),
  );
  app.get("/docs/swagger-ui.css", (c) => send(c, files.css, "text/css; charset=utf-8"));
  app.get("/docs/swagger-ui-bundle.js", (c) => send(c, files.script, "text/javascript; charset=utf-8"));
}

function send(c: Context, file: string, type: string): Response {
  const body = Readable.toWeb(createReadStream(file)) as ReadableStream;
  return c.body(body, 200, { "content-type": type, "cache-control": "public, max-age=86400" });
}
