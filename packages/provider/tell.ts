import type { SweepResult } from "@concierge/core";
import * as z from "zod/mini";
import { inTime } from "./budget.ts";
import { sweepResults } from "./sweep.ts";
import type { ProviderOptions } from "./vercel.ts";

export const vercelApi = "https://vercel.com/api";
const timeoutMs = 2_000;
const sigterm = 15;
const finished = z.object({ command: z.object({ exitCode: z.int() }) });

/**
 * Tells what waits beside a turn's runner to sweep, and waits for its end; two calls of Vercel's REST API, made at once.
 * Nothing where it could not be told or did not get to say what it found: the sweep that then comes will know why.
 */
export async function tellLauncher(
  { token, teamId, baseUrl, timeLeftMs }: ProviderOptions,
  sessionId: string,
  commandId: string,
): Promise<SweepResult | undefined> {
  const api = baseUrl === undefined ? vercelApi : `${baseUrl}/api`;
  const url = `${api}/v2/sandboxes/sessions/${sessionId}/cmd/${commandId}`;
  const team = new URLSearchParams({ teamId });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ signal: sigterm });
  try {
    const [, { command }] = await inTime({ timeLeftMs }, timeoutMs, (signal) =>
      Promise.all([
        fetch(`${url}/kill?${team}`, { method: "POST", headers, body, signal }).then(answered),
        fetch(`${url}?${team}&wait=true`, { headers, signal }).then(answered).then(finished.parse),
      ]),
    );
    return sweepResults.get(command.exitCode);
  } catch {
    return undefined;
  }
}

async function answered(response: Response): Promise<unknown> {
  if (!response.ok) throw new Error(`status ${response.status}`);
  return await response.json();
}
