import type { Provider } from "@concierge/core";
import { createVercelProvider } from "@concierge/provider";
import { required } from "./environment.ts";

export function createProvider(baseUrl: string | undefined): Provider {
  return createVercelProvider({
    token: required("VERCEL_TOKEN"),
    teamId: required("VERCEL_TEAM_ID"),
    projectId: required("VERCEL_PROJECT_ID"),
    baseUrl,
  });
}
