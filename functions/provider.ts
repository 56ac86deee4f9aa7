import { type Provider, required } from "@concierge/core";
import { createVercelProvider } from "@concierge/provider";
import { timeLeftMs } from "./context.ts";

export function createProvider(baseUrl: string | undefined): Provider {
  return createVercelProvider({
    token: required(process.env, "VERCEL_TOKEN"),
    teamId: required(process.env, "VERCEL_TEAM_ID"),
    projectId: required(process.env, "VERCEL_PROJECT_ID"),
    baseUrl,
    // A call that outlives its function proves nothing: it ends while there is time to write that it failed.
    timeLeftMs,
  });
}
