import { isCancel, password, text } from "@clack/prompts";
import { createClient } from "@concierge/client";
import { profilesFile, readProfiles, writeProfiles } from "../connection/profiles.ts";
import { checkUrl, defaultProfile, defaultUrl } from "../connection/resolve.ts";
import { CommandError, UsageError } from "../errors.ts";
import type { Program } from "../program.ts";
import { printJson, printLine } from "../view/table.ts";

export function registerLogin(program: Program): void {
  program
    .command("login")
    .description("check and store a URL and a key, by profile")
    .option("--key-stdin", "read the key from stdin, which keeps it out of `ps` and the shell's history")
    .action(async ({ keyStdin }, command) => {
      const { url, key, profile = defaultProfile, json } = command.optsWithGlobals();
      const stored = await readProfiles();
      const given = url ?? (process.env.CONCIERGE_URL || (await askUrl(stored[profile]?.url)));
      const checked = checkUrl(given);
      const apiKey = (
        keyStdin ? await readStdin() : (key ?? (process.env.CONCIERGE_API_KEY || (await askKey())))
      ).trim();
      if (!/^[\x21-\x7e]+$/.test(apiKey))
        throw new UsageError("The key is empty or has characters that no key has.");
      // Checks URL and key before anything is stored.
      await createClient({ url: checked, apiKey, retries: 1 }).me();
      await writeProfiles({ ...stored, [profile]: { url: checked, key: apiKey } });
      if (json) return printJson({ profile, url: checked, file: profilesFile() });
      printLine(`Profile "${profile}" for ${checked} is stored in ${profilesFile()}.`);
    });

  program
    .command("logout")
    .description("forget a profile")
    .action(async (_, command) => {
      const { profile = defaultProfile, json } = command.optsWithGlobals();
      const { [profile]: known, ...rest } = await readProfiles();
      if (!known) throw new UsageError(`There is no profile "${profile}".`);
      await writeProfiles(rest);
      json
        ? printJson({ forgotten: profile })
        : printLine(`Profile "${profile}" is forgotten. The key is still valid.`);
    });
}

async function askUrl(known: string | undefined): Promise<string> {
  needTerminal("--url or CONCIERGE_URL");
  const initialValue = known ?? defaultUrl;
  return answered(await text({ message: "URL of the server", initialValue }));
}

async function askKey(): Promise<string> {
  needTerminal("--key-stdin or CONCIERGE_API_KEY");
  return answered(await password({ message: "API key" }));
}

function needTerminal(instead: string): void {
  if (!process.stdin.isTTY) throw new UsageError(`There is no terminal to ask on: use ${instead}.`);
}

function answered(value: string | symbol | undefined): string {
  if (isCancel(value)) throw new CommandError("Nothing was stored.");
  return String(value ?? "");
}

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
