/**
 * Builds the dashboard to `dist/<hash>`, where the hash covers everything that goes in. A build that is already there is
 * used again. Two builds at once do no harm: each writes its own directory and renames it.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { glob, mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const home = fileURLToPath(new URL(".", import.meta.url));
const repositoryRoot = join(home, "../..");
const dist = join(home, "dist");
const buildTimeoutMs = 120_000;

/**
 * The browser runs only our own files. `unsafe-inline` for styles is for xterm.js, which writes its colours into style
 * elements; scripts stay strict.
 */
export const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Headers of the page and of its files. */
export const securityHeaders: Readonly<Record<string, string>> = {
  "content-security-policy": contentSecurityPolicy,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** Files other than the page have a hash in their name, so they never change. */
export const assetPrefix = "dashboard/";

/** Builds if needed, and returns the directory with `index.html` and `dashboard/…`. */
export async function buildDashboard(signal?: AbortSignal): Promise<string> {
  const directory = join(dist, await hashOfSources());
  if (existsSync(directory)) return directory;
  const temporary = join(dist, `building-${process.pid}-${Date.now()}`);
  await mkdir(dist, { recursive: true });
  // A process of its own: the bundler would stay in the memory of the caller, which may run for days.
  const script = fileURLToPath(new URL("bundle.ts", import.meta.url));
  await promisify(execFile)(process.execPath, [script, temporary], {
    cwd: home,
    timeout: buildTimeoutMs,
    ...(signal && { signal }),
  });
  const others = (await readdir(dist)).filter((name) => !name.startsWith("building-"));
  await rename(temporary, directory).catch(async (error: NodeJS.ErrnoException) => {
    if (!existsSync(directory)) throw error;
    await rm(temporary, { recursive: true, force: true });
  });
  for (const name of others) {
    if (join(dist, name) !== directory) await rm(join(dist, name), { recursive: true, force: true });
  }
  return directory;
}

async function hashOfSources(): Promise<string> {
  const hash = createHash("sha256");
  const patterns = [
    "packages/dashboard/{bundle.ts,package.json,app/**/*}",
    "packages/client/*.ts",
    "package-lock.json",
  ];
  const files: string[] = [];
  for await (const entry of glob(patterns, { cwd: repositoryRoot, withFileTypes: true })) {
    if (entry.isFile()) files.push(relative(repositoryRoot, join(entry.parentPath, entry.name)));
  }
  for (const file of files.sort()) hash.update(file).update(await readFile(join(repositoryRoot, file)));
  return hash.digest("hex").slice(0, 16);
}
