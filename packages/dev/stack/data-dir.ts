/** The data directory, kept between runs: secrets, the table (`dynamodb/`) and sandboxes (`sandboxes/`). */
import { randomBytes } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Topology } from "../../../infra/topology.ts";
import { processStart } from "../processes/process-start.ts";

export async function openDataDir(dataDir: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
}

/** Allows one stack at a time and takes over the lock of a killed one. Returns a function that unlocks. */
export async function lockDataDir(dataDir: string): Promise<() => Promise<void>> {
  const file = join(dataDir, "dev.lock");
  const ownLock = JSON.stringify({ pid: process.pid, start: processStart(process.pid) });
  while (!(await createFile(file, ownLock))) {
    const otherLock = await readText(file);
    if (otherLock === undefined) continue;
    const holder = parseHolder(otherLock);
    if (holder && processStart(holder.pid) === holder.start) {
      throw new Error(`${dataDir} is in use by process ${holder.pid}`);
    }
    await removeStale(file, otherLock);
  }
  return () => rm(file, { force: true });
}

/**
 * Two starters can find the same stale lock, and the slower one can move away the lock that the faster one just created.
 * Compare what was moved and put it back if it is not the stale lock; otherwise both would start.
 */
async function removeStale(file: string, content: string): Promise<void> {
  const staleFile = `${file}.${process.pid}`;
  try {
    await rename(file, staleFile);
  } catch {
    return;
  }
  const found = await readText(staleFile);
  if (found !== undefined && found !== content) await createFile(file, found);
  await rm(staleFile, { force: true });
}

function parseHolder(content: string): { pid: number; start: string } | undefined {
  try {
    const holder = JSON.parse(content);
    return Number.isInteger(holder?.pid) && holder.pid > 0 ? holder : undefined;
  } catch {
    return undefined;
  }
}

/** Reads the secrets and creates missing ones. `apiKey` overrides the admin's key. */
export async function loadSecrets(
  dataDir: string,
  topology: Topology,
  apiKey: string | undefined,
): Promise<Record<string, string>> {
  const file = join(dataDir, "secrets.json");
  const stored: Record<string, string> = JSON.parse((await readText(file)) ?? "{}");
  const names = new Set(Object.values(topology.functions).flatMap((definition) => definition.secrets));
  const secrets = { ...stored };
  for (const name of ["AdminApiKey", ...names]) secrets[name] ??= newSecret(name);
  const fresh = `${file}.${process.pid}`;
  await writeFile(fresh, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
  await rename(fresh, file);
  return apiKey ? { ...secrets, AdminApiKey: apiKey } : secrets;
}

function newSecret(name: string): string {
  const bytes = randomBytes(32);
  return name === "AdminApiKey" ? `ck_dev_${bytes.toString("base64url")}` : bytes.toString("base64");
}

async function createFile(file: string, content: string): Promise<boolean> {
  try {
    await writeFile(file, content, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  }
}

async function readText(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
