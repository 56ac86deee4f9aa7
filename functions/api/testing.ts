import { fileURLToPath } from "node:url";
import {
  type Config,
  catalogue,
  createFlagReader,
  createId,
  createSealer,
  type Deps,
  type EndingDeps,
  type LaunchDeps,
  type MetricDefinition,
  type MetricName,
  parseConfig,
  type Timer,
  type Webhooks,
  type WorkMessage,
} from "@concierge/core";
import { carryOut, deliverWebhook, fireTimer } from "@concierge/core/verbs";
import { createMemoryProvider } from "@concierge/provider";
import { SandboxSessionManager } from "@concierge/sessions";
import { createMemoryStore } from "@concierge/store";
import { createApp } from "./app.ts";

const pages = {
  css: fileURLToPath(import.meta.resolve("swagger-ui-dist/swagger-ui.css")),
  script: fileURLToPath(import.meta.resolve("swagger-ui-dist/swagger-ui-bundle.js")),
};

export const adminKey = "admin-key-for-tests-only";

const testConfig = parseConfig({
  CONCIERGE_DEFAULT_AGENT: "shell",
  CONCIERGE_STAGE: "test",
  CONCIERGE_ALLOW_PRIVATE_HOSTS: "true",
});

const nothing = { hosts: [], env: {}, secrets: [], missing: [] };
const key = {
  name: "ANTHROPIC_API_KEY",
  header: "x-api-key",
  host: "api.anthropic.com",
  value: "canary-agent-key",
};

/** Claude has its key here, codex has none. */
const agents: LaunchDeps["agents"] = {
  claude: { ...nothing, hosts: [key.host], secrets: [key] },
  codex: { ...nothing, missing: ["OPENAI_API_KEY"] },
  cursor: nothing,
  shell: nothing,
};

/** The api on a store in memory, with a clock that the test moves and a queue that the test reads. */
export function createTestApi(config: Config = testConfig) {
  let now = Date.parse("2026-11-01T12:00:00Z");
  const sent: WorkMessage[] = [];
  const armed: (Timer & { delayMs: number })[] = [];
  const counted: string[] = [];
  const clock: Deps["clock"] = {
    now: () => now,
    // What sleeps until it is told to stop does not move the time for everyone else: `passTime` wakes it.
    sleep: async (ms, signal) => {
      if (!signal) now += ms;
      else
        await new Promise<void>((wake) => {
          sleepers.push({ until: now + ms, wake });
          signal.addEventListener("abort", () => wake());
        });
    },
  };
  const sleepers: { until: number; wake: () => void }[] = [];
  const store = createMemoryStore({ clock });
  const { provider, world } = createMemoryProvider({ clock });
  const refs = new Map<string, string>();
  const ending: EndingDeps = {
    config,
    clock,
    ids: {
      task: () => createId("task", now++),
      key: () => createId("key", now++),
      claim: () => createId("claim", now++),
      warm: () => createId("warm", now++),
    },
    store,
    provider,
    flags: createFlagReader({ store, clock }, config.flags),
    metrics: {
      count: (name: MetricName, _value?: number, dimensions: Readonly<Record<string, string>> = {}) => {
        checkDimensions(name, dimensions);
        counted.push([name, ...Object.values(dimensions)].join(" "));
      },
    },
    timeLeftMs: () => Number.POSITIVE_INFINITY,
    git: { readBranch: async (url, branch) => refs.get(`${url} ${branch}`) },
    timers: {
      arm: async (timer, delayMs) => {
        armed.push({ ...timer, delayMs });
      },
    },
    work: {
      send: async (message) => {
        sent.push(message);
      },
    },
    sealer: createSealer("sealing-key-for-tests"),
    limitTime: (_ms, work) => work(),
  };
  const deps = { ...ending, sessions: new SandboxSessionManager({ ...config, ...ending }) };
  const app = createApp(deps, adminKey, pages);

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

  const told: Parameters<Webhooks["send"]>[0][] = [];
  const webhooks: Webhooks = {
    send: async (message) => {
      told.push(message);
      return { kind: "delivered" };
    },
  };
  const handle = async (message: WorkMessage) => {
    if (message.kind === "webhook") await deliverWebhook(launchDeps, message);
    else await carryOut(launchDeps, message);
  };
  const launchDeps = { ...deps, runner: "runner", callbackUrl: "http://concierge", agents, webhooks };
  return {
    app,
    deps,
    /** Does what workers would with the messages that are there, and first what follows the ends of turns. */
    work: async () => {
      for (let ends = takeEnds(sent); ends.length > 0; ends = takeEnds(sent))
        for (const message of ends) await handle(message);
      for (const message of sent.splice(0)) await handle(message);
    },
    /** Fires the timers that were armed, whether their time has come or not. */
    fire: async (...kinds: Timer["kind"][]) => {
      const due = armed.splice(0);
      for (const { delayMs: _, ...timer } of due)
        if (kinds.includes(timer.kind)) await fireTimer(deps, timer);
    },
    sent,
    /** The webhooks that were sent, and how. */
    told,
    webhooks,
    armed,
    counted,
    world,
    refs,
    request,
    /** The answer as it comes, for what reads it bit by bit or not at all. */
    open: (path: string, headers: Record<string, string> = {}) =>
      app.request(path, { headers: { authorization: `Bearer ${adminKey}`, ...headers } }),
    advance: (ms: number) => {
      now += ms;
    },
    /** The time moves on, and what sleeps until then wakes and takes its next steps. */
    passTime: async (ms: number) => {
      now += ms;
      for (const { until, wake } of sleepers) if (until <= now) wake();
      for (let turns = 0; turns < 5; turns++) await new Promise((next) => setImmediate(next));
    },
    /** A key of a user's own. */
    keyFor: async (userId: string): Promise<string> =>
      (await request("POST", "/v1/keys", { body: { userId } })).json.key,
  };
}

function takeEnds(sent: WorkMessage[]): WorkMessage[] {
  const ends = sent.filter(({ kind }) => kind === "ended");
  sent.splice(0, sent.length, ...sent.filter(({ kind }) => kind !== "ended"));
  return ends;
}

/** What is counted is by what the catalogue says, and by no value that it does not know. */
function checkDimensions(name: MetricName, dimensions: Readonly<Record<string, string>>): void {
  const { by }: MetricDefinition = catalogue[name];
  const values = by?.values ?? Object.values(dimensions);
  const isKnown = Object.entries(dimensions).every(
    ([key, value]) => key === by?.name && values.includes(value),
  );
  if (!isKnown || Object.keys(dimensions).length !== (by ? 1 : 0))
    throw new Error(`${name} is counted by ${JSON.stringify(dimensions)}`);
}

export type TestApi = ReturnType<typeof createTestApi>;

interface RequestOptions {
  key?: string;
  body?: unknown;
  headers?: Record<string, string>;
}
