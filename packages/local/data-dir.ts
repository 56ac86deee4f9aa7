/** What is kept between runs: secrets here, the table in `dynamodb/`, sandboxes in `sandboxes/`. */
import { randomBytes } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Topology } from "../../infra/topology.ts";
import { processStart } from "./process-start.ts";

export async function openDataDir(dataDir: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
}

/** One stack at a time; the lock of one that was killed is taken over. The caller removes it in the end. */
export async function lockDataDir(dataDir: string): Promise<() => Promise<void>> {
  const file = join(dataDir, "dev.lock");
  const mine = JSON.stringify({ pid: process.pid, start: processStart(process.pid) });
  while (!(await createFile(file, mine))) {
    const theirs = await readText(file);
    if (theirs === undefined) continue;
    const holder = parseHolder(theirs);
    if (holder && processStart(holder.pid) === holder.start) {
      throw new Error(`${dataDir} is in use by the process ${holder.pid}`);
    }
    await removeStale(file, theirs);
  }
  return () => rm(file, { force: true });
}

/**
 * Two starters may find the same stale lock. Moving it away is atomic, but the slower one may move the
 * lock that the faster one has just made: it then puts that one back.
 */
async function removeStale(file: string, content: string): Promise<void> {
  const aside = `${file}.${process.pid}`;
  try {
    await rename(file, aside);
  } catch {
    return;
  }
  const moved = await readText(aside);
  if (moved !== undefined && moved !== content) await createFile(file, moved);
  await rm(aside, { force: true });
}

function parseHolder(content: string): { pid: number; start: string } | undefined {
  try {
    const holder = JSON.parse(content);
    return Number.isInteger(holder?.pid) && holder.pid > 0 ? holder : undefined;
  } catch {
    return undefined;
  }
}

/** Each secret is made once. The admin's key is `apiKey` where that is given. */
export async function loadSecrets(
  dataDir: string,
  topology: Topology,
  apiKey: string | undefined,
): Promise<Record<string, string>> {
  const file = join(dataDir, "secrets.json");
  const kept: Record<string, string> = JSON.parse((await readText(file)) ?? "{}");
  const names = new Set(Object.values(topology.functions).flatMap((definition) => definition.secrets));
  const secrets = { ...kept };
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
