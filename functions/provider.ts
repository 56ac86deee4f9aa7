import type { Provider } from "@concierge/core";
import { required } from "./environment.ts";

/** The provider, whose SDK is loaded by the first call that needs it: most invocations of the api need none. */
export function createLazyProvider(baseUrl: string | undefined): Provider {
  let loading: Promise<Provider> | undefined;
  const load = async (): Promise<Provider> => {
    const { createVercelProvider } = await import("@concierge/provider");
    return createVercelProvider({
      token: required("VERCEL_TOKEN"),
      teamId: required("VERCEL_TEAM_ID"),
      projectId: required("VERCEL_PROJECT_ID"),
      baseUrl,
    });
  };
  const provider = (): Promise<Provider> => {
    loading ??= load();
    return loading;
  };
  return {
    create: async (...given) => (await provider()).create(...given),
    probe: async (...given) => (await provider()).probe(...given),
    resume: async (...given) => (await provider()).resume(...given),
    snapshot: async (...given) => (await provider()).snapshot(...given),
    deleteSnapshot: async (...given) => (await provider()).deleteSnapshot(...given),
    exec: async (...given) => (await provider()).exec(...given),
    list: async (...given) => (await provider()).list(...given),
    writeFiles: async (...given) => (await provider()).writeFiles(...given),
    guardNetwork: async (...given) => (await provider()).guardNetwork(...given),
    launch: async (...given) => (await provider()).launch(...given),
    sweep: async (...given) => (await provider()).sweep(...given),
    ask: async (...given) => (await provider()).ask(...given),
    extend: async (...given) => (await provider()).extend(...given),
    remove: async (...given) => (await provider()).remove(...given),
  };
}
