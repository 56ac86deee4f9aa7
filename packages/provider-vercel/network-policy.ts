import type { HeaderRule, NetworkPolicy } from "@concierge/core";
import { inTime } from "./budget.ts";
import { vercelApi } from "./signal-launcher.ts";
import type { ProviderOptions } from "./vercel.ts";

const timeoutMs = 5_000;

/** A policy as Vercel's API and SDK take it. */
export function toVercelPolicy(
  { allow, inject }: NetworkPolicy,
  { baseUrl }: Pick<ProviderOptions, "baseUrl">,
) {
  // Only the local API knows ports. Vercel's entries are names.
  const nameOf = (host: string) => (baseUrl === undefined ? host.replace(/:\d+$/, "") : host);
  const names = new Set([...allow, ...inject.map(({ host }) => host)].map(nameOf));
  const rulesOf = (name: string) => inject.filter(({ host }) => nameOf(host) === name).map(toVercelRule);
  return { allow: Object.fromEntries([...names].map((name) => [name, rulesOf(name)])) };
}

function toVercelRule({ match: { path, method, query, header }, set }: HeaderRule) {
  return {
    match: {
      path,
      ...(method !== undefined && { method: [method] }),
      ...(query && { queryString: [exactEntry(query)] }),
      ...(header && { headers: [exactEntry(header)] }),
    },
    transform: [{ headers: { [set.name]: set.value } }],
  };
}

function exactEntry({ name, value }: { name: string; value: string }) {
  return { key: { exact: name }, value: { exact: value } };
}

/**
 * Sets the policy by one call to Vercel's REST API, without the SDK, which takes long to load: every stop sets one. False
 * if it failed, for any reason. The caller then uses the SDK, which reports why.
 */
export async function putNetworkPolicy(
  options: ProviderOptions,
  providerSessionId: string,
  policy: NetworkPolicy,
): Promise<boolean> {
  const { token, teamId, baseUrl, timeLeftMs } = options;
  const api = baseUrl === undefined ? vercelApi : `${baseUrl}/api`;
  const url = `${api}/v2/sandboxes/sessions/${providerSessionId}/network-policy?${new URLSearchParams({ teamId })}`;
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify(toVercelPolicy(policy, options));
  try {
    const response = await inTime({ timeLeftMs }, timeoutMs, (signal) =>
      fetch(url, { method: "POST", headers, body, signal }),
    );
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}
