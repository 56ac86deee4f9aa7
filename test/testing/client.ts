import { randomUUID } from "node:crypto";

export interface TaskAnswer {
  id: string;
  status: string;
  turn: number;
  sandbox: { name: string; origin: string; epoch: number } | null;
  phases: { turn: number; status: string; by: string; at: string; note?: string }[];
  timings: Record<string, number | null>;
  result: {
    exitCode: number | null;
    text: string;
    commit: string | null;
    branch: string | null;
    pushed: boolean;
  } | null;
  error: { code: string; detail: string } | null;
  notices: { code: string; detail: string; turn: number }[];
}

/** What a user does over HTTP. An unexpected status throws an error that shows the response. */
export function createClient({ url, apiKey }: { url: string; apiKey: string }) {
  const request = async (method: string, path: string, body?: unknown): Promise<Response> =>
    await fetch(new URL(path, url), {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });

  const expecting = async (
    statuses: number[],
    method: string,
    path: string,
    body?: unknown,
  ): Promise<Response> => {
    const response = await request(method, path, body);
    if (statuses.includes(response.status)) return response;
    throw new Error(`${method} ${path} answered ${response.status}: ${await response.text()}`);
  };

  const task = async (response: Response): Promise<TaskAnswer> => (await response.json()) as TaskAnswer;

  return {
    url,
    request,

    /** Starts a task in its own session, unless one is named. */
    async start(prompt: string, over: Record<string, unknown> = {}): Promise<TaskAnswer> {
      return await task(
        await expecting([202], "POST", "/v1/tasks", { prompt, sessionKey: randomUUID(), ...over }),
      );
    },

    async get(id: string): Promise<TaskAnswer> {
      return await task(await expecting([200], "GET", `/v1/tasks/${id}`));
    },

    async continue(id: string, prompt: string, over: Record<string, unknown> = {}): Promise<TaskAnswer> {
      return await task(await expecting([202], "POST", `/v1/tasks/${id}/continue`, { prompt, ...over }));
    },

    async stop(id: string): Promise<TaskAnswer & { httpStatus: number }> {
      const response = await expecting([200, 202, 409], "POST", `/v1/tasks/${id}/stop`);
      return { ...(await task(response)), httpStatus: response.status };
    },

    /** Polls until the task is as wanted. Also polls while the api restarts. */
    async until(id: string, wanted: (task: TaskAnswer) => boolean, withinMs = 30_000): Promise<TaskAnswer> {
      const deadline = Date.now() + withinMs;
      let last: TaskAnswer | undefined;
      while (Date.now() < deadline) {
        const response = await request("GET", `/v1/tasks/${id}`).catch(() => undefined);
        last = response?.ok ? await task(response) : last;
        if (last && wanted(last)) return last;
        await new Promise((resolve) => setTimeout(resolve, 25));
      }
      throw new Error(`${id} did not get there in ${withinMs} ms: ${JSON.stringify(last)}`);
    },

    async ended(id: string, withinMs?: number): Promise<TaskAnswer> {
      return await this.until(id, ({ status }) => terminal.has(status), withinMs);
    },

    async output(id: string): Promise<Buffer> {
      const response = await expecting([200], "GET", `/v1/tasks/${id}/output`);
      return Buffer.from(await response.arrayBuffer());
    },

    /** All events, page by page. */
    async events(id: string): Promise<Record<string, unknown>[]> {
      const all: Record<string, unknown>[] = [];
      for (let after = ""; ; ) {
        const response = await expecting([200], "GET", `/v1/tasks/${id}/events?after=${after}`);
        const { items, cursor } = (await response.json()) as {
          items: Record<string, unknown>[];
          cursor: string;
        };
        if (items.length === 0) return all;
        all.push(...items);
        after = cursor;
      }
    },

    async json(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
      return (await (await expecting([200, 201, 202], method, path, body)).json()) as Record<string, unknown>;
    },
  };
}

export type Client = ReturnType<typeof createClient>;

const terminal = new Set(["succeeded", "failed", "stopped", "timed_out"]);
