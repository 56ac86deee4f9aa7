import {
  createId,
  createSealer,
  type Deps,
  parseConfig,
  type SealingDeps,
  type WorkMessage,
} from "@concierge/core";
import { createMemoryStore } from "@concierge/store";
import { createApp } from "./app.ts";

export const adminKey = "admin-key-for-tests-only";

/** The api on a store in memory, with a clock that the test moves and a queue that the test reads. */
export function createTestApi() {
  let now = Date.parse("2026-11-01T12:00:00Z");
  const sent: WorkMessage[] = [];
  const clock: Deps["clock"] = {
    now: () => now,
    sleep: async (ms) => {
      now += ms;
    },
  };
  const deps: SealingDeps = {
    config: parseConfig({ CONCIERGE_DEFAULT_AGENT: "shell", CONCIERGE_STAGE: "test" }),
    clock,
    ids: {
      task: () => createId("task", now++),
      key: () => createId("key", now++),
      claim: () => createId("claim", now++),
    },
    store: createMemoryStore({ clock }),
    work: {
      send: async (message) => {
        sent.push(message);
      },
    },
    sealer: createSealer("sealing-key-for-tests"),
  };
  const app = createApp(deps, adminKey);

  const request = async (method: string, path: string, options: RequestOptions = {}) => {
    const { key = adminKey, body, headers = {} } = options;
    const response = await app.request(path, {
      method,
      headers: {
        ...(key && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const type = response.headers.get("content-type") ?? "";
    return {
      status: response.status,
      headers: response.headers,
      text,
      type,
      json: type.includes("json") ? JSON.parse(text) : undefined,
    };
  };

  return {
    deps,
    sent,
    request,
    advance: (ms: number) => {
      now += ms;
    },
    /** A key of a user's own. */
    keyFor: async (userId: string): Promise<string> =>
      (await request("POST", "/v1/keys", { body: { userId } })).json.key,
  };
}

export type TestApi = ReturnType<typeof createTestApi>;

interface RequestOptions {
  key?: string;
  body?: unknown;
  headers?: Record<string, string>;
}
