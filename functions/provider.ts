import { type Provider, required } from "@concierge/core";
import { createVercelProvider } from "@concierge/provider";

export function createProvider(baseUrl: string | undefined): Provider {
  return createVercelProvider({
    token: required(process.env, "VERCEL_TOKEN"),
    teamId: required(process.env, "VERCEL_TEAM_ID"),
    projectId: required(process.env, "VERCEL_PROJECT_ID"),
    baseUrl,
  });
}
