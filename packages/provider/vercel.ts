import { lazily, type Provider } from "@concierge/core";
import type { Budget } from "./budget.ts";
import { tellLauncher } from "./tell.ts";

export interface ProviderOptions extends Budget {
  token: string;
  teamId: string;
  projectId: string;
  /** Where the API is, when it is not Vercel's own. */
  baseUrl?: string | undefined;
  /** How much time is left for the work under way: no call takes longer. */
  timeLeftMs?: (() => number) | undefined;
}

/**
 * Vercel's sandboxes, through its SDK; but a stop does not wait for the SDK to be loaded, nor for a sandbox to be looked
 * up, where what was launched has only to be told.
 */
export function createVercelProvider(options: ProviderOptions): Provider {
  const load = async () => (await import("./sdk.ts")).createSdkProvider(options);
  const sdk = lazily<Provider>(load);
  return lazily<Provider>(async () => sdk, {
    async sweep(sandbox, runDir, { commandId, evenIfSuperseded = false } = {}) {
      if (commandId !== undefined && !evenIfSuperseded) {
        const found = await tellLauncher(options, sandbox.sessionId, commandId);
        if (found === "clean" || found === "superseded") return found;
      }
      return await sdk.sweep(sandbox, runDir, { commandId, evenIfSuperseded });
    },
  });
}
