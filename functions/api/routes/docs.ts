import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import manifest from "../../package.json" with { type: "json" };
import { createDocument, type Info } from "../openapi/document.ts";
import type { DocumentedRouter, Route } from "../openapi/documented-router.ts";

/** The page behaves like a static one: its only script comes from this host, and it keeps no key. */
const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Concierge API</title>
<script src="/docs/explorer.js" type="module"></script>
</head>
<body>
<openapi-explorer spec-url="/openapi.json"></openapi-explorer>
</body>
</html>
`;

/** The explorer sets inline styles, so these are allowed. Nothing else is, and nothing from another host. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const info: Info = {
  title: "Concierge",
  version: manifest.version,
  description: "A serverless control plane for coding agents in sandboxes.",
};

/** The OpenAPI document and interactive docs, which load nothing from other hosts. */
export function registerDocs(
  app: DocumentedRouter,
  explorerFile: string,
  routes: () => Promise<readonly Route[]>,
): void {
  app.get("/openapi.json", async (c) => c.json(createDocument(info, await routes())));
  app.get("/docs", (c) => c.html(page, 200, { "content-security-policy": policy }));
  app.get("/docs/explorer.js", (c) => {
    const body = Readable.toWeb(createReadStream(explorerFile)) as ReadableStream;
    return c.body(body, 200, {
      "content-type": "text/javascript; charset=utf-8",
      "cache-control": "public, max-age=86400",
    });
  });
}
