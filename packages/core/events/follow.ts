import type { Deps } from "../deps.ts";
import { isTerminal, type Task } from "../task/schema.ts";
import { parseCursor } from "./cursor.ts";
import { readEvents } from "./read.ts";
import type { TaskEvent } from "./schema.ts";

export interface Followed {
  items: readonly TaskEvent[];
  cursor: string;
  /** The task has ended and there are no more events. */
  isOver: boolean;
}

/** The result of one poll, for every reader whose cursor matches its start. */
interface Look extends Followed {
  task: Task;
  from: string;
}

/** A task that is followed in this process. */
interface Watched {
  readers: number;
  last: Look;
  next: PromiseWithResolvers<Look>;
}

export type Follow = (task: Task, after: string, signal: AbortSignal) => AsyncGenerator<Followed>;

const pollMs = 150;

/**
 * Follows tasks' events. One poll serves all readers of a task in this process. A reader that falls behind queries the
 * table directly, so nothing is buffered for slow readers and nobody waits for them.
 */
export function createFollower(deps: Deps): Follow {
  const watched = new Map<string, Watched>();
  const reading = new Map<string, Promise<Followed>>();

  return async function* follow(task, after, signal) {
    let cursor = after;
    for await (const page of catchUp(task)) yield page;
    if (isOverAt(task) || signal.aborted) return;
    const watch = join(task, cursor);
    try {
      for (let seen: Look | undefined; ; ) {
        // The last poll may have ended before this reader came: use its result first.
        const look: Look | undefined = watch.last === seen ? await nextOf(watch, signal) : watch.last;
        if (!look || signal.aborted) return;
        seen = look;
        if (look.from === cursor) {
          cursor = look.cursor;
          if (look.items.length > 0 || look.isOver) yield look;
        } else for await (const page of catchUp(look.task)) yield page;
        if (isOverAt(look.task)) return;
      }
    } finally {
      watch.readers -= 1;
    }

    /** Reads from the table up to the newest event. */
    async function* catchUp(known: Task): AsyncGenerator<Followed> {
      for (;;) {
        const page = await read(known, cursor);
        const isDone = page.cursor === cursor;
        cursor = page.cursor;
        if (page.items.length > 0 || page.isOver) yield page;
        if (isDone || page.isOver || signal.aborted) return;
      }
    }

    function isOverAt(known: Task): boolean {
      return isTerminal(known.state.status);
    }
  };

  function join(task: Task, cursor: string): Watched {
    const known = watched.get(task.id);
    const last: Look = { task, from: cursor, items: [], cursor, isOver: false };
    const watch = known ?? { readers: 0, last, next: Promise.withResolvers<Look>() };
    watch.readers += 1;
    if (!known) {
      watched.set(task.id, watch);
      void lookOn(task.id, watch);
    }
    return watch;
  }

  /** Polls while there are readers. */
  async function lookOn(id: string, watch: Watched): Promise<void> {
    while (watch.readers > 0) {
      await deps.clock.sleep(pollMs);
      // If the table does not answer, poll again.
      const look = await lookAfter(id, watch.last).catch(() => undefined);
      if (!look) continue;
      const { resolve } = watch.next;
      watch.last = look;
      watch.next = Promise.withResolvers();
      resolve(look);
    }
    watched.delete(id);
  }

  async function lookAfter(id: string, last: Look): Promise<Look | undefined> {
    const task = await deps.store.getTask(id);
    if (!task || !mayHaveNews(task, last.task)) return undefined;
    const found = await read(task, last.cursor);
    if (found.items.length === 0 && !found.isOver) return undefined;
    return { task, from: last.cursor, ...found };
  }

  /** Concurrent reads from the same cursor share one query. */
  function read(task: Task, cursor: string): Promise<Followed> {
    const what = `${task.id} ${task.phaseCount} ${task.outputSeq} ${task.notices.length} ${cursor}`;
    const found = reading.get(what) ?? readFrom(deps, task, cursor).finally(() => reading.delete(what));
    reading.set(what, found);
    return found;
  }
}

async function readFrom(deps: Deps, task: Task, cursor: string): Promise<Followed> {
  const page = await readEvents(deps, task, parseCursor(cursor));
  const isOver = isTerminal(task.state.status) && !page.more;
  return { items: page.items, cursor: page.cursor, isOver };
}

/** Before a turn runs, its progress is not on the task itself. */
function mayHaveNews(task: Task, before: Task): boolean {
  if (task.state.status === "queued" || task.state.status === "provisioning") return true;
  return (
    task.phaseCount !== before.phaseCount ||
    task.outputSeq !== before.outputSeq ||
    task.notices.length !== before.notices.length ||
    task.turn !== before.turn
  );
}

async function nextOf({ next }: Watched, signal: AbortSignal): Promise<Look | undefined> {
  const { promise: ended, resolve } = Promise.withResolvers<undefined>();
  const onAbort = () => resolve(undefined);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return signal.aborted ? undefined : await Promise.race([next.promise, ended]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
