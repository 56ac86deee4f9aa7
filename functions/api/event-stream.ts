import { type Deps, isTerminal, type Task } from "@concierge/core";
import { type Follow, formatCursor, parseCursor, readEvents } from "@concierge/core/events";
import type { Context } from "hono";
import { stream } from "hono/streaming";
import type { Env } from "./env.ts";

/** A comment at least this often, so that nothing in between takes the connection for dead. */
const keepOpenMs = 15_000;
/** How soon a client that was cut off connects again. */
const reconnectMs = 500;
/**
 * How long a stream lasts. On AWS nothing says that a reader has left, and an abandoned stream keeps reading the table:
 * so each stream ends, and the client connects again with the last id it received.
 */
const longestMs = 90_000;

/**
 * Events for an `EventSource`: `id` is the cursor, so a reader that was cut off continues where it was. The stream ends
 * with the task, or after `longestMs`; a reader that then connects again after the last event of an ended task gets a
 * 204, which tells an `EventSource` to stop.
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
  c.header("content-type", "text/event-stream; charset=utf-8");
  c.header("cache-control", "no-cache, no-transform");
  c.header("x-accel-buffering", "no");
  if (c.req.method === "HEAD") return c.body(null, 200);
  const ending = new AbortController();
  const ended = new Promise<void>((resolve) => ending.signal.addEventListener("abort", () => resolve()));
  const events = follow(task, formatCursor(from), ending.signal);

  return stream(c, async (out) => {
    out.onAbort(() => ending.abort());
    // A reader that does not read must not hold the stream past its end.
    const write = (text: string) => Promise.race([out.write(text), ended]);
    void keepOpen(deps, ending, () => void out.write(": still here\n\n"));
    try {
      await write(`retry: ${reconnectMs}\n: connected\n\n`);
      for await (const { items } of events) {
        // A slow reader waits for itself alone: what it misses meanwhile it reads later.
        for (const item of items) {
          await write(`id: ${item.cursor}\ndata: ${JSON.stringify(item)}\n\n`);
          if (ending.signal.aborted) return;
        }
      }
    } finally {
      ending.abort();
    }
  });
}

/** Comments until the stream ends, and ends it when its time is over. */
async function keepOpen({ clock }: Deps, ending: AbortController, comment: () => void): Promise<void> {
  const endsAt = clock.now() + longestMs;
  while (!ending.signal.aborted) {
    await clock.sleep(Math.min(keepOpenMs, endsAt - clock.now()), ending.signal);
    if (clock.now() >= endsAt) ending.abort();
    else if (!ending.signal.aborted) comment();
  }
}
