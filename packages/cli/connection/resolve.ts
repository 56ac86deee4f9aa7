import { UsageError } from "../errors.ts";
import type { GlobalOptions } from "../options.ts";
import type { Profiles } from "./profiles.ts";

export const defaultUrl = "http://127.0.0.1:4000";
export const defaultProfile = "default";

export interface Connection {
  url: string;
  key: string | undefined;
}

/**
 * Options win over a named profile, a named profile over the environment, the environment over the default profile. A
 * profile's key is sent only to that profile's URL.
 */
export function resolveConnection(
  options: Pick<GlobalOptions, "url" | "key" | "profile">,
  env: NodeJS.ProcessEnv,
  profiles: Profiles,
): Connection {
  const named = options.profile !== undefined;
  const profile = profiles[options.profile ?? defaultProfile];
  if (named && !profile) {
    const known = Object.keys(profiles).join(", ") || "none";
    const next = `Store it with \`concierge login --profile ${options.profile}\`. Known profiles: ${known}.`;
    throw new UsageError(`There is no profile "${options.profile}".`, next);
  }
  const fromEnv = named
    ? {}
    : { url: env.CONCIERGE_URL || undefined, key: env.CONCIERGE_API_KEY || undefined };
  const url = checkUrl(options.url ?? fromEnv.url ?? profile?.url ?? defaultUrl);
  const profileKey = profile && sameUrl(profile.url, url) ? profile.key : undefined;
  return { url, key: options.key ?? fromEnv.key ?? profileKey };
}

export function checkUrl(text: string): string {
  const url = URL.parse(text);
  if (url && ["http:", "https:"].includes(url.protocol)) return url.href.replace(/\/+$/, "");
  throw new UsageError(`"${text}" is not a URL.`, "Write it as http://host:port or https://host.");
}

function sameUrl(a: string, b: string): boolean {
  return URL.parse(a)?.href.replace(/\/+$/, "") === b;
}
