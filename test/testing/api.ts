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
import { fireTimer } from "@concierge/core/task/timer";
import { createMemoryProvider } from "@concierge/core/testing";
import { deliverWebhook } from "@concierge/core/webhook/deliver";
import { handleWork } from "@concierge/core/work";
import { createApp } from "@concierge/functions/api/app";
import { createMemoryStore } from "@concierge/store";

const explorerFile = fileURLToPath(
  import.meta.resolve("openapi-explorer/dist/browser/openapi-explorer.min.js"),
);

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
  path: "/v1/",
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
    // A sleep with a signal does not move time for everyone else: `passTime` wakes it.
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
  const deps: EndingDeps = {
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
  const app = createApp(deps, adminKey, explorerFile);

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
    else await handleWork(launchDeps, message);
  };
  const launchDeps = { ...deps, runner: "runner", callbackUrl: "http://concierge", agents, webhooks };
  return {
    app,
    deps,
    /** Handles the queued messages as workers would, follow-ups first. */
    work: async () => {
      for (let ends = takeEnds(sent); ends.length > 0; ends = takeEnds(sent))
        for (const message of ends) await handle(message);
      for (const message of sent.splice(0)) await handle(message);
    },
    /** Fires the armed timers of these kinds, due or not. */
    fire: async (...kinds: Timer["kind"][]) => {
      const due = armed.splice(0);
      for (const { delayMs: _, ...timer } of due)
        if (kinds.includes(timer.kind)) await fireTimer(deps, timer);
    },
    sent,
    /** The webhooks that were sent. */
    told,
    webhooks,
    armed,
    counted,
    world,
    refs,
    request,
    /** The response as a stream. */
    open: (path: string, headers: Record<string, string> = {}) =>
      app.request(path, { headers: { authorization: `Bearer ${adminKey}`, ...headers } }),
    advance: (ms: number) => {
      now += ms;
    },
    /** Moves the time and wakes what slept until then. */
    passTime: async (ms: number) => {
      now += ms;
      for (const { until, wake } of sleepers) if (until <= now) wake();
      for (let turns = 0; turns < 5; turns++) await new Promise((next) => setImmediate(next));
    },
    /** A key of this user. */
    keyFor: async (userId: string): Promise<string> =>
      (await request("POST", "/v1/keys", { body: { userId } })).json.key,
  };
}

function takeEnds(sent: WorkMessage[]): WorkMessage[] {
  const ends = sent.filter(({ kind }) => kind === "ended");
  sent.splice(0, sent.length, ...sent.filter(({ kind }) => kind !== "ended"));
  return ends;
}

/** Metrics are counted only with dimensions and values of the catalogue. */
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
