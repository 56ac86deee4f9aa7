import { type EventsOptions, followEvents, type TaskEvent } from "./events.ts";
import { type ClientOptions, createHttp, type HttpRequest } from "./http.ts";
import {
  type Answer,
  type ContinueRequest,
  type ExecRequest,
  type FlagsRequest,
  isTerminal,
  type KeyRequest,
  type Method,
  type Path,
  type Query,
  type StartRequest,
  type Task,
  type UserLimitsRequest,
} from "./types.ts";

export interface CallOptions {
  signal?: AbortSignal | undefined;
}

export interface IdempotentOptions extends CallOptions {
  /** Makes calls with the same key one call, for 24 hours. The client makes a new key for each call by default. */
  idempotencyKey?: string | undefined;
}

interface Call
  extends Pick<HttpRequest, "query" | "headers" | "body" | "signal" | "timeoutMs" | "isRepeatable"> {
  /** The values of the path's parameters, in their order. */
  params?: readonly string[];
}

/** How long the server holds an answer at most. */
const waitMs = 25_000;
/** The server's default limit of a command. */
const execTimeoutMs = 60_000;
/** The time limit includes reading the body, at the reader's pace. */
const streamTimeoutMs = 60 * 60_000;
/** A command may have to wait for its sandbox. */
const execExtraMs = 120_000;

export type Client = ReturnType<typeof createClient>;

/**
 * A client of the Concierge API. Every method rejects with a `ConciergeError`, or with the reason of the caller's signal.
 *
 * Reads, `start`, `continue`, `sessions.prepare` and `flags.set` are retried after a lost connection. Other calls are
 * retried only when the server refused them before it did anything (429 with `Retry-After`).
 */
export function createClient(options: ClientOptions) {
  const http = createHttp(options);

  return {
    /** Starts a task. It is queued when this returns. A retried start starts one task. */
    start: (request: StartRequest, { idempotencyKey, signal }: IdempotentOptions = {}) =>
      call("post", "/v1/tasks", { body: request, signal, ...idempotent(idempotencyKey) }),

    /** Stops a task. It has ended, with proof, unless its status is still `stopping`: then `wait` for it. */
    stop: (id: string, { signal }: CallOptions = {}) =>
      call("post", "/v1/tasks/{id}/stop", { params: [id], signal }),

    /** Starts the next turn of a task whose turn has ended. */
    continue: (id: string, request: ContinueRequest, { idempotencyKey, signal }: IdempotentOptions = {}) =>
      call("post", "/v1/tasks/{id}/continue", {
        params: [id],
        body: request,
        signal,
        ...idempotent(idempotencyKey),
      }),

    get: (id: string, { signal }: CallOptions = {}) =>
      call("get", "/v1/tasks/{id}", { params: [id], signal }),

    /** A page of tasks, newest first. The next page starts at its `cursor`. */
    list: (query: Query<"/v1/tasks", "get"> = {}, { signal }: CallOptions = {}) =>
      call("get", "/v1/tasks", { query, signal }),

    /** Returns the task when its turn has ended. Waits without limit; a signal ends the wait. */
    async wait(id: string, { signal }: CallOptions = {}): Promise<Task> {
      for (;;) {
        const task = await call("get", "/v1/tasks/{id}", { params: [id], query: { waitMs }, signal });
        if (isTerminal(task.status)) return task;
      }
    },

    /** Everything the agent printed, or one turn of it. */
    output: (id: string, { turn, signal }: OutputOptions = {}): Promise<string> =>
      http.send({ ...outputRequest(id, turn), signal }, (response) => response.text()),

    /** The output as it arrives, byte for byte. A connection that breaks in the middle is an error. */
    async outputStream(
      id: string,
      { turn, signal }: OutputOptions = {},
    ): Promise<ReadableStream<Uint8Array>> {
      const request = { ...outputRequest(id, turn), signal, timeoutMs: streamTimeoutMs };
      return await http.send(request, async ({ body }) => body ?? new ReadableStream());
    },

    /** The events of a task, until it has ended, over any number of connections. */
    events: (id: string, options: EventsOptions = {}): AsyncGenerator<TaskEvent, void> =>
      followEvents(http, id, options),

    sessions: {
      get: (key: string, { probe, signal }: ProbeOptions = {}) =>
        call("get", "/v1/sessions/{key}", { params: [key], query: { probe }, signal }),
      list: (query: SessionQuery = {}, { signal }: CallOptions = {}) =>
        call("get", "/v1/sessions", { query, signal }),
      /** Gets or creates a session and prepares its sandbox. `isReady` says whether it is ready. */
      prepare: (key: string, { signal }: CallOptions = {}) =>
        call("put", "/v1/sessions/{key}", { params: [key], signal, isRepeatable: true }),
      extend: (key: string, durationMs: number, { signal }: CallOptions = {}) =>
        call("post", "/v1/sessions/{key}/extend", { params: [key], body: { durationMs }, signal }),
      /** Starts a new conversation with the agent in the same sandbox. */
      reset: (key: string, { signal }: CallOptions = {}) =>
        call("post", "/v1/sessions/{key}/reset", { params: [key], signal }),
      /** Runs a command and waits for it. */
      exec: (key: string, request: ExecRequest, { signal }: CallOptions = {}) =>
        call("post", "/v1/sessions/{key}/exec", {
          params: [key],
          body: request,
          signal,
          timeoutMs: (request.timeoutMs ?? execTimeoutMs) + execExtraMs,
        }),
      delete: (key: string, { signal }: CallOptions = {}) =>
        remove("/v1/sessions/{key}", { params: [key], signal }),
    },

    pool: ({ signal }: CallOptions = {}) => call("get", "/v1/pool", { signal }),

    costs: (query: Query<"/v1/costs", "get"> = {}, { signal }: CallOptions = {}) =>
      call("get", "/v1/costs", { query, signal }),

    /** The success metrics of a window and whether they meet their targets. */
    metrics: (query: Query<"/v1/metrics", "get"> = {}, { signal }: CallOptions = {}) =>
      call("get", "/v1/metrics", { query, signal }),

    flags: {
      get: ({ signal }: CallOptions = {}) => call("get", "/v1/flags", { signal }),
      set: (flags: FlagsRequest, { signal }: CallOptions = {}) =>
        call("put", "/v1/flags", { body: flags, signal, isRepeatable: true }),
    },

    /** Runs a reaper pass, or reports what it would do. */
    reap: ({ dryRun = false, signal }: CallOptions & { dryRun?: boolean | undefined } = {}) =>
      call("post", "/v1/reap", { body: { dryRun }, signal }),

    keys: {
      /** The key is shown only in this answer. */
      create: (request: KeyRequest = {}, { signal }: CallOptions = {}) =>
        call("post", "/v1/keys", { body: request, signal }),
      list: (query: Query<"/v1/keys", "get"> = {}, { signal }: CallOptions = {}) =>
        call("get", "/v1/keys", { query, signal }),
      /** Makes a new key. The old one is accepted for `overlapMs` more. */
      rotate: (id: string, { overlapMs, signal }: CallOptions & { overlapMs?: number | undefined } = {}) =>
        call("post", "/v1/keys/{id}/rotate", { params: [id], body: { overlapMs }, signal }),
      delete: (id: string, { signal }: CallOptions = {}) => remove("/v1/keys/{id}", { params: [id], signal }),
    },

    /** The audit log, newest first. For admins. */
    audit: (query: Query<"/v1/audit", "get"> = {}, { signal }: CallOptions = {}) =>
      call("get", "/v1/audit", { query, signal }),

    /** Users and their limits. For admins. */
    users: {
      limits: (id: string, { signal }: CallOptions = {}) =>
        call("get", "/v1/users/{id}/limits", { params: [id], signal }),
      /** Changes the limits that are given. The value `"default"` removes the user's own. */
      setLimits: (id: string, limits: UserLimitsRequest, { signal }: CallOptions = {}) =>
        call("put", "/v1/users/{id}/limits", { params: [id], body: limits, signal, isRepeatable: true }),
    },

    /** Who the key belongs to, and what it may do. */
    me: ({ signal }: CallOptions = {}) => call("get", "/v1/me", { signal }),

    /** The secret that signs your webhooks. */
    webhookSecret: async ({ signal }: CallOptions = {}): Promise<string> =>
      (await call("get", "/v1/webhooks/secret", { signal })).secret,

    health: ({ signal }: CallOptions = {}) => call("get", "/healthz", { signal }),

    /** Any other GET route of the server, for example one that is newer than this client. */
    read: (path: `/${string}`, { signal }: CallOptions = {}): Promise<unknown> =>
      http.send({ method: "GET", path, signal, isRepeatable: true }, (response) => response.json()),
  };

  function call<P extends Path, M extends Method>(method: M, path: P, call: Call): Promise<Answer<P, M>> {
    return http.send(toRequest(method, path, call), (response) => response.json() as Promise<Answer<P, M>>);
  }

  function remove(path: Path, call: Call): Promise<void> {
    return http.send(toRequest("delete", path, call), async () => {});
  }
}

interface OutputOptions extends CallOptions {
  turn?: number | undefined;
}

interface ProbeOptions extends CallOptions {
  /** Asks the provider for the sandbox's health. */
  probe?: boolean | undefined;
}

type SessionQuery = Omit<Query<"/v1/sessions", "get">, "probe"> & Pick<ProbeOptions, "probe">;

function toRequest(method: Method, path: Path, { params = [], ...call }: Call): HttpRequest {
  const values = [...params];
  const filled = path.replaceAll(/{\w+}/g, () => encodeURIComponent(values.shift() ?? ""));
  return { isRepeatable: method === "get", ...call, method: method.toUpperCase(), path: filled };
}

function outputRequest(id: string, turn: number | undefined): HttpRequest {
  return toRequest("get", "/v1/tasks/{id}/output", { params: [id], query: { turn } });
}

function idempotent(key: string = randomKey()): Pick<Call, "headers" | "isRepeatable"> {
  return { headers: { "idempotency-key": key }, isRepeatable: true };
}

/** Not `randomUUID`, which browsers have only on secure origins. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
