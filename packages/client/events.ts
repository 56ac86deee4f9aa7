import { ConciergeError } from "./errors.ts";
import { type Http, isTransient, type Retry, retryDelayMs, sleep, toConciergeError } from "./http.ts";
import type { components } from "./schema.gen.ts";
import { readMessages } from "./sse.ts";

export type TaskEvent = components["schemas"]["Event"];

export interface EventsOptions {
  /** The cursor of the last event that is already known. */
  after?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Told before each attempt to connect again after a failure. */
  onRetry?: ((retry: Retry) => void) | undefined;
  /** How long to try to reach a server that does not answer. Default 5 minutes. */
  giveUpAfterMs?: number | undefined;
}

const defaultGiveUpAfterMs = 5 * 60_000;
/** The server sends a comment every 15 seconds, so a connection that is silent for this long is dead. */
const silenceMaxMs = 45_000;
/** A connection that lived this long was a good one, even if it brought no event. */
const goodConnectionMs = 5_000;

/**
 * The events of a task in order, each once, until its last turn has ended. A dropped connection and the server's time
 * limit for a stream go unnoticed: the next request continues after the last cursor. The server ends the iteration with
 * a 204, so a task that is continued right after its end is followed into the next turn.
 */
export async function* followEvents(
  http: Http,
  id: string,
  { after = "", signal, onRetry = http.onRetry, giveUpAfterMs = defaultGiveUpAfterMs }: EventsOptions,
): AsyncGenerator<TaskEvent, void> {
  let cursor = after;
  let failures = 0;
  let answeredAt = Date.now();

  for (;;) {
    const connectedAt = Date.now();
    let isFruitful = false;
    let failure: ConciergeError | undefined;
    const connection = createConnection(signal);
    try {
      const response = await http.open(request(), connection.signal);
      answeredAt = Date.now();
      if (response.status === 204 || !response.body) return;
      for await (const message of readMessages(response.body, connection.touch)) {
        isFruitful = true;
        cursor = message.id;
        answeredAt = Date.now();
        yield JSON.parse(message.data) as TaskEvent;
      }
    } catch (error) {
      const known = toConciergeError(error, signal, http.base);
      if (!(known instanceof ConciergeError) || !isTransient(known)) throw known;
      failure = known;
    } finally {
      connection.close();
    }

    // A stream that brought something is continued at once, any other after a delay. Otherwise a server that ends
    // every stream at once would be asked in a tight loop.
    const isGood = isFruitful || Date.now() - connectedAt > goodConnectionMs;
    failures = isGood ? 0 : failures + 1;
    if (failure && Date.now() - answeredAt > giveUpAfterMs) throw failure;
    const delayMs = isGood && !failure ? 0 : retryDelayMs(Math.max(failures - 1, 0), failure?.retryAfterMs);
    if (failure) onRetry?.({ error: failure, delayMs });
    await sleep(delayMs, signal);
  }

  function request() {
    return {
      method: "GET",
      path: `/v1/tasks/${encodeURIComponent(id)}/events`,
      headers: { accept: "text/event-stream", ...(cursor && { "last-event-id": cursor }) },
    };
  }
}

/** A signal that ends with the caller's, and when nothing arrives for too long. */
function createConnection(outer: AbortSignal | undefined) {
  const silence = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const touch = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(new Error("nothing arrived for too long")), silenceMaxMs);
  };
  touch();
  return {
    touch,
    signal: outer ? AbortSignal.any([outer, silence.signal]) : silence.signal,
    close: () => clearTimeout(timer),
  };
}
