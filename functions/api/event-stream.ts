import { AppError, type Caller, type Deps, isStillValid, isTerminal, type Task } from "@concierge/core";
import { formatCursor, parseCursor } from "@concierge/core/events/cursor";
import type { Follow } from "@concierge/core/events/follow";
import { readEvents } from "@concierge/core/events/read";
import { takeLeaseHold } from "@concierge/core/users/holds";
import { limitsOf } from "@concierge/core/users/limits";
import type { Context } from "hono";
import { stream } from "hono/streaming";
import type { Env } from "./env.ts";

/** Interval of comments, which keep proxies from closing an idle connection. */
const keepOpenMs = 15_000;
/** How soon a stream notices that its key was revoked. */
const keyCheckMs = 5_000;
/** How soon a disconnected client reconnects. */
const reconnectMs = 500;
/**
 * A stream ends after this time, and the client reconnects with the last id it received. On AWS nothing reports that a
 * reader has left, so an endless stream would poll the table for nobody.
 */
const streamMaxMs = 90_000;

/**
 * Sends events as an `EventSource` reads them. `id` is the cursor, so a reader that reconnects continues where it was. The
 * stream ends with the task or after `streamMaxMs`. A reader that reconnects after the last event of an ended task gets
 * a 204, which tells an `EventSource` to stop.
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
  const hold = await takeStream(deps, c.get("caller"));
  const ending = new AbortController();
  ending.signal.addEventListener("abort", () => void hold.release());
  const ended = new Promise<void>((resolve) => ending.signal.addEventListener("abort", () => resolve()));
  const events = follow(task, formatCursor(from), ending.signal);

  return stream(c, async (out) => {
    out.onAbort(() => ending.abort());
    // A reader that does not read must not keep the stream open past its end.
    const write = (text: string) => Promise.race([out.write(text), ended]);
    void keepOpen(deps, c.get("caller"), ending, () => void out.write(": still here\n\n"));
    try {
      await write(`retry: ${reconnectMs}\n: connected\n\n`);
      for await (const { items } of events) {
        // A slow reader delays only itself; it reads later what it misses meanwhile.
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

/** Counts the stream against the limits of its user and key, for as long as it can last at most. */
async function takeStream(deps: Deps, { userId, keyId }: Caller): Promise<{ release: () => Promise<void> }> {
  const { maxStreams, maxStreamsPerKey } = await limitsOf(deps, userId);
  const hold = await takeLeaseHold(deps, userId, "streams", {
    id: deps.ids.claim(),
    untilAt: deps.clock.now() + streamMaxMs + streamSlackMs,
    max: { all: maxStreams, [keyId]: maxStreamsPerKey },
  });
  if (!("full" in hold)) return hold;
  deps.metrics.count("limit_refused", 1, { limit: "stream_limit" });
  const [most, whose] = hold.full === "all" ? [maxStreams, "user"] : [maxStreamsPerKey, "key"];
  throw new AppError("stream_limit", `Your ${whose} has ${most} open streams, which is the limit.`, {
    retryAfterMs: streamRetryMs,
  });
}

const streamSlackMs = 5_000;
const streamRetryMs = 10_000;

/** Sends comments until the stream ends. Ends it after `streamMaxMs`, or when the caller's key is no longer valid. */
async function keepOpen(
  deps: Deps,
  caller: Caller,
  ending: AbortController,
  comment: () => void,
): Promise<void> {
  const { clock } = deps;
  const endsAt = clock.now() + streamMaxMs;
  let commentAt = clock.now() + keepOpenMs;
  while (!ending.signal.aborted) {
    await clock.sleep(Math.min(keyCheckMs, endsAt - clock.now()), ending.signal);
    if (ending.signal.aborted) return;
    // If the table does not answer, the next check decides.
    const isValid = await isStillValid(deps, caller).catch(() => true);
    if (!isValid || clock.now() >= endsAt) ending.abort();
    else if (clock.now() >= commentAt) {
      comment();
      commentAt = clock.now() + keepOpenMs;
    }
  }
}
