import { type Deps, isTerminal, type Task } from "@concierge/core";
import { type Follow, formatCursor, parseCursor, readEvents } from "@concierge/core/events";
import type { Context } from "hono";
import { stream } from "hono/streaming";
import type { Env } from "./env.ts";

/** A comment at least this often, so that nobody between takes the connection for dead. */
const keepOpenMs = 15_000;
/** How soon someone who was cut off comes again. */
const comeAgainMs = 500;
/** A function has an end; whoever listens comes again with the last id he heard. */
const longestMs = 14 * 60_000;

/**
 * Events as a server sends them to an `EventSource`: `id` is the cursor, so that a reader who was cut off goes on where
 * he was. It ends with the task; who then comes again is told with a 204 that there is nothing to come again for.
 */
export async function sendEvents(
  c: Context<Env>,
  { deps, follow }: { deps: Deps; follow: Follow },
  task: Task,
  after: string,
): Promise<Response> {
  const from = parseCursor(after);
  if (after !== "" && isTerminal(task.state.status)) {
    const { items, more } = await readEvents(deps, task, from);
    if (items.length === 0 && !more) return c.body(null, 204);
  }
  const ending = new AbortController();
  const events = follow(task, formatCursor(from), ending.signal);

  c.header("content-type", "text/event-stream; charset=utf-8");
  c.header("cache-control", "no-cache, no-transform");
  c.header("x-accel-buffering", "no");
  return stream(c, async (out) => {
    out.onAbort(() => ending.abort());
    const tooLong = setTimeout(() => ending.abort(), longestMs);
    const keepOpen = setInterval(
      () => void out.write(": still here\n\n").catch(() => ending.abort()),
      keepOpenMs,
    );
    try {
      await out.write(`retry: ${comeAgainMs}\n: connected\n\n`);
      for await (const { items } of events) {
        // Whoever is slow holds up himself alone: what he misses meanwhile he reads later.
        for (const item of items) await out.write(`id: ${item.cursor}\ndata: ${JSON.stringify(item)}\n\n`);
      }
    } finally {
      clearTimeout(tooLong);
      clearInterval(keepOpen);
      ending.abort();
    }
  });
}
