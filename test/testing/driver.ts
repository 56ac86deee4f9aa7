import { ProviderError } from "@concierge/core";
import { createTestApi, type TestApi } from "./api.ts";

export const repo = { url: "http://git.test/repo.git", branch: "work", token: "canary-token-123" };
export const push = { commit: "c".repeat(40), branch: "work", exitCode: 0, text: "done" };

export const failing = (kind: "transient" | "gone") => async () => {
  throw new ProviderError(kind, "the provider is away");
};

/** The test api with the actions of users, workers and runners. */
export function createDriver(api: TestApi = createTestApi()) {
  const post = (path: string, body?: unknown, key?: string) =>
    api.request("POST", path, { ...(body !== undefined && { body }), ...(key !== undefined && { key }) });
  const start = async (over: Record<string, unknown> = {}): Promise<string> =>
    (await post("/v1/tasks", { prompt: "true", ...over })).json.id;
  const say = (token: string, path: string, body: unknown) => post(`/v1/runner/${path}`, body, token);

  return {
    api,
    post,
    start,
    say,
    get: async (id: string) => (await api.request("GET", `/v1/tasks/${id}`)).json,
    stop: (id: string) => post(`/v1/tasks/${id}/stop`),

    /** Starts a task and brings it to `running`, with its sandbox and its runner's process. */
    async running(over: Record<string, unknown> = {}) {
      const id = await start(over);
      await api.work();
      const process = api.world.processes.at(-1);
      if (!process) throw new Error("nothing was launched");
      const { token } = JSON.parse(process.env.CONCIERGE_TURN ?? "{}") as { token: string };
      return { id, process, token };
    },

    end: (token: string, over: Record<string, unknown> = {}) =>
      say(token, "end", {
        lastSeq: 0,
        exitCode: 0,
        signal: null,
        reason: "exited",
        outputCutBytes: 0,
        text: "",
        ...over,
      }),
  };
}

export type Driver = ReturnType<typeof createDriver>;
