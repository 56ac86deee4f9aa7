import type { Provider } from "@concierge/core";
import type { Budget } from "./budget.ts";

export interface ProviderOptions extends Budget {
  token: string;
  teamId: string;
  projectId: string;
  /** Replaces Vercel's API, for the local stack. */
  baseUrl?: string | undefined;
}

/**
 * The `Provider` on Vercel Sandbox. The SDK takes long to load, so the first call that needs it loads it. A stop usually
 * does not: `sweep` signals the launcher over REST and uses the SDK only if that gives no result.
 */
export function createVercelProvider(options: ProviderOptions): Provider {
  let loading: Promise<Provider> | undefined;
  const load = async () => (await import("./sdk.ts")).createSdkProvider(options);
  const sdk = () => (loading ??= load());
  return {
    create: async (...args) => (await sdk()).create(...args),
    probe: async (...args) => (await sdk()).probe(...args),
    resume: async (...args) => (await sdk()).resume(...args),
    snapshot: async (...args) => (await sdk()).snapshot(...args),
    deleteSnapshot: async (...args) => (await sdk()).deleteSnapshot(...args),
    exec: async (...args) => (await sdk()).exec(...args),
    list: async (...args) => (await sdk()).list(...args),
    writeFiles: async (...args) => (await sdk()).writeFiles(...args),
    async guardNetwork(sandbox, policy) {
      const { putNetworkPolicy } = await import("./network-policy.ts");
      if (await putNetworkPolicy(options, sandbox.sessionId, policy)) return "guarded";
      return await (await sdk()).guardNetwork(sandbox, policy);
    },
    launch: async (...args) => (await sdk()).launch(...args),
    ask: async (...args) => (await sdk()).ask(...args),
    extend: async (...args) => (await sdk()).extend(...args),
    remove: async (...args) => (await sdk()).remove(...args),
    async sweep(sandbox, runDir, { commandId, evenIfSuperseded = false } = {}) {
      if (commandId !== undefined && !evenIfSuperseded) {
        const { signalLauncher } = await import("./signal-launcher.ts");
        const result = await signalLauncher(options, sandbox.sessionId, commandId);
        if (result === "clean" || result === "superseded") return result;
      }
      return await (await sdk()).sweep(sandbox, runDir, { commandId, evenIfSuperseded });
    },
  };
}
