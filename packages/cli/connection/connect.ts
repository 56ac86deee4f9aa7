import { type Client, createClient, type Retry } from "@concierge/client";
import { UsageError } from "../errors.ts";
import type { GlobalOptions } from "../options.ts";
import { readProfiles } from "./profiles.ts";
import { resolveConnection } from "./resolve.ts";

/** A person waits. */
const retries = 2;

/** The client for this command's server and key. */
export async function connect(options: GlobalOptions): Promise<Client> {
  const { url, key } = await connectionOf(options);
  return createClient({ url, apiKey: key, retries, ...(!options.json && { onRetry: warn }) });
}

/** The URL and the key that this command uses. */
export async function connectionOf(options: GlobalOptions): Promise<{ url: string; key: string }> {
  const { url, key } = resolveConnection(options, process.env, await readProfiles());
  if (!key) {
    const next = "Store one with `concierge login`, or set CONCIERGE_API_KEY.";
    throw new UsageError(`There is no key for ${url}.`, next);
  }
  if (!/^[\x21-\x7e]+$/.test(key)) throw new UsageError("The key has spaces or characters that no key has.");
  return { url, key };
}

/** On stderr, so that it never mixes with results. */
function warn({ error, delayMs }: Retry): void {
  process.stderr.write(`concierge: ${error.detail} Trying again in ${(delayMs / 1000).toFixed(1)} s.\n`);
}
