/** A `fetch` with scripted answers, which records what it was asked. */
export interface Asked {
  method: string;
  url: string;
  headers: Headers;
  body: string | undefined;
}

export type Reply = Response | Error | ((asked: Asked) => Response | Promise<Response>);

export function fakeServer(...replies: Reply[]) {
  const asked: Asked[] = [];
  const fetch: typeof globalThis.fetch = async (url, init = {}) => {
    const request = {
      method: init.method ?? "GET",
      url: String(url),
      headers: new Headers(init.headers),
      body: typeof init.body === "string" ? init.body : undefined,
    };
    asked.push(request);
    const reply = replies.length > 1 ? replies.shift() : replies[0];
    if (init.signal?.aborted) throw init.signal.reason;
    if (reply instanceof Error) throw reply;
    if (typeof reply === "function") return await reply(request);
    if (!reply) throw new Error("the server has no more replies");
    return reply.clone();
  };
  return { fetch, asked };
}

export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", ...headers },
  });
}

export function problem(
  status: number,
  code: string,
  headers: Record<string, string> = {},
  extra: object = {},
) {
  return json(
    { type: `urn:concierge:problem:${code}`, title: code, status, code, detail: `${code}.`, ...extra },
    status,
    headers,
  );
}

/** The error of Node's `fetch` for a connection that broke. */
export function dropped(): Error {
  return new TypeError("fetch failed", { cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }) });
}

/** A stream with these events; `breaks` ends it with an error. */
export function stream(
  events: readonly { cursor: string; [name: string]: unknown }[],
  { breaks = false } = {},
): () => Response {
  const text = events.map((event) => `id: ${event.cursor}\ndata: ${JSON.stringify(event)}\n\n`).join("");
  const pieces = [`retry: 500\n: connected\n\n${text}`];
  return () => {
    const left = [...pieces];
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          const piece = left.shift();
          if (piece !== undefined) controller.enqueue(new TextEncoder().encode(piece));
          else if (breaks) controller.error(dropped());
          else controller.close();
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
}
