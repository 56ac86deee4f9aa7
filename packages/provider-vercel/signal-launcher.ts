import type { SweepResult } from "@concierge/core";
import * as z from "zod/mini";
import { inTime } from "./budget.ts";
import { sweepResults } from "./sweep.ts";
import type { ProviderOptions } from "./vercel.ts";

export const vercelApi = "https://vercel.com/api";
const timeoutMs = 2_000;
const sigterm = 15;
const finishedSchema = z.object({ command: z.object({ exitCode: z.int() }) });

/**
 * Sends SIGTERM to a turn's launcher, which then sweeps, and waits for its exit code: two concurrent calls to Vercel's
 * REST API. Undefined if there is no result, for any reason. The caller then runs a sweep of its own.
 */
export async function signalLauncher(
  { token, teamId, baseUrl, timeLeftMs }: ProviderOptions,
  providerSessionId: string,
  commandId: string,
): Promise<SweepResult | undefined> {
  const api = baseUrl === undefined ? vercelApi : `${baseUrl}/api`;
  const url = `${api}/v2/sandboxes/sessions/${providerSessionId}/cmd/${commandId}`;
  const team = new URLSearchParams({ teamId });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ signal: sigterm });
  try {
    const [, { command }] = await inTime({ timeLeftMs }, timeoutMs, (signal) =>
      Promise.all([
        fetch(`${url}/kill?${team}`, { method: "POST", headers, body, signal }).then(readJson),
        fetch(`${url}?${team}&wait=true`, { headers, signal }).then(readJson).then(finishedSchema.parse),
      ]),
    );
    return sweepResults.get(command.exitCode);
  } catch {
    return undefined;
  }
}

async function readJson(response: Response): Promise<unknown> {
  if (!response.ok) throw new Error(`status ${response.status}`);
  return await response.json();
}
