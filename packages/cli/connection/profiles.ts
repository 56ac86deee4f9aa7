import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { UsageError } from "../errors.ts";

export interface Profile {
  url: string;
  key: string;
}

export type Profiles = Readonly<Record<string, Profile>>;

/** In the XDG config directory. */
export function profilesFile(env: NodeJS.ProcessEnv = process.env): string {
  return join(env.XDG_CONFIG_HOME || join(homedir(), ".config"), "concierge", "profiles.json");
}

/** Empty if nothing is stored. */
export async function readProfiles(file: string = profilesFile()): Promise<Profiles> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw error;
  }
  const profiles = parse(text);
  if (!profiles) throw new UsageError(`${file} is not valid.`, "Remove it and run `concierge login`.");
  return profiles;
}

/** Readable by the owner alone, and never half written. */
export async function writeProfiles(profiles: Profiles, file: string = profilesFile()): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const next = `${file}.${process.pid}`;
  try {
    await writeFile(next, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 });
    await chmod(next, 0o600);
    await rename(next, file);
  } catch (error) {
    await rm(next, { force: true });
    throw error;
  }
}

/** Whether others than the owner may read the file. False if there is none. */
export async function isExposed(file: string = profilesFile()): Promise<boolean> {
  const found = await stat(file).catch(() => undefined);
  return found !== undefined && (found.mode & 0o077) !== 0;
}

function parse(text: string): Profiles | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isProfiles(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isProfiles(value: unknown): value is Profiles {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.values(value).every(
    (profile) => typeof profile?.url === "string" && typeof profile?.key === "string",
  );
}
