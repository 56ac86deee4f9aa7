/** Serves the dashboard, as the bucket behind CloudFront does on AWS. No function loads it. */
import { readdir, readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { extname, join, relative } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { assetPrefix, buildDashboard, securityHeaders } from "@concierge/dashboard";

interface StaticFile {
  type: string;
  cacheControl: string;
  body: Buffer;
  zipped: Buffer;
}

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

export interface Dashboard {
  /** Answers requests for the page and its files. False for all others. */
  answer(request: IncomingMessage, response: ServerResponse): Promise<boolean>;
  /** Builds it now instead of at the first request. */
  prepare(): Promise<void>;
  close(): void;
}

/** Built at the first request, or before with `prepare`, and then kept in memory. */
export function createDashboard(): Dashboard {
  const closing = new AbortController();
  let files: Promise<ReadonlyMap<string, StaticFile>> | undefined;
  const load = () => {
    files ??= buildDashboard(closing.signal).then(readFiles);
    files.catch(() => {
      files = undefined;
    });
    return files;
  };
  return {
    async answer(request, response) {
      const path = (request.url ?? "/").split("?", 1)[0] ?? "/";
      const isOurs = path === "/" || path.startsWith(`/${assetPrefix}`);
      if (!isOurs || (request.method !== "GET" && request.method !== "HEAD")) return false;
      const file = (await load()).get(path === "/" ? "/index.html" : path);
      if (!file) return false;
      const isZipped = /\bgzip\b/.test(String(request.headers["accept-encoding"] ?? ""));
      const body = isZipped ? file.zipped : file.body;
      response.writeHead(200, {
        ...securityHeaders,
        "content-type": file.type,
        "content-length": body.length,
        "cache-control": file.cacheControl,
        vary: "accept-encoding",
        ...(isZipped && { "content-encoding": "gzip" }),
      });
      response.end(request.method === "HEAD" ? undefined : body);
      return true;
    },
    prepare: async () => void (await load()),
    close: () => closing.abort(),
  };
}

async function readFiles(directory: string): Promise<ReadonlyMap<string, StaticFile>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map(async (entry): Promise<[string, StaticFile]> => {
      const file = join(entry.parentPath, entry.name);
      const path = relative(directory, file);
      const body = await readFile(file);
      const isHashed = path.startsWith(assetPrefix);
      return [
        `/${path}`,
        {
          type: types[extname(path)] ?? "application/octet-stream",
          cacheControl: isHashed ? "public, max-age=31536000, immutable" : "no-cache",
          body,
          zipped: await promisify(gzip)(body),
        },
      ];
    });
  return new Map(await Promise.all(files));
}
