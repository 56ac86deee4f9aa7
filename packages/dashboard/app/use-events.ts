import type { TaskEvent } from "@concierge/client";
import { type RefObject, useEffect, useRef, useState } from "react";
import { useSignedIn } from "./signed-in.tsx";
import type { TerminalHandle } from "./ui/terminal.tsx";

type Of<T extends TaskEvent["type"]> = Extract<TaskEvent, { type: T }>;

export interface Watched {
  steps: readonly Of<"progress">[];
  blocks: readonly Of<"agent">[];
  /** Earlier blocks that are no longer shown. */
  droppedBlocks: number;
  /** Why there is no connection, while there is none. */
  lost: string;
}

/** What is kept in memory; the output goes to the terminal. */
const maxSteps = 200;
const maxBlocks = 300;
const renderEveryMs = 100;

/**
 * Follows a task's events until its turn has ended, and follows the next turn from there. The client connects again by
 * itself and continues after the last cursor, so nothing is shown twice.
 */
export function useEvents(
  id: string,
  turn: number,
  terminal: RefObject<TerminalHandle | null>,
  onStatus: () => void,
): Watched {
  const { client } = useSignedIn();
  const [watched, setWatched] = useState<Watched>({ steps: [], blocks: [], droppedBlocks: 0, lost: "" });
  const kept = useRef({ steps: [] as Of<"progress">[], blocks: [] as Of<"agent">[], dropped: 0, cursor: "" });
  const tellStatus = useRef(onStatus);
  tellStatus.current = onStatus;

  // A new turn starts a new stream.
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let lost = "";
    const render = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        const { steps, blocks, dropped } = kept.current;
        setWatched({ steps: [...steps], blocks: [...blocks], droppedBlocks: dropped, lost });
      }, renderEveryMs);
    };

    const follow = async () => {
      const events = client.events(id, {
        after: kept.current.cursor,
        signal: abort.signal,
        onRetry: ({ error }) => {
          lost = error.detail;
          render();
        },
      });
      for await (const event of events) {
        kept.current.cursor = event.cursor;
        if (lost) {
          lost = "";
          render();
        }
        if (event.type === "output") {
          await terminal.current?.write(
            event.stream === "stderr" ? `\x1b[31m${event.text}\x1b[39m` : event.text,
          );
        } else {
          if (event.type === "progress") kept.current.steps = [...kept.current.steps, event].slice(-maxSteps);
          if (event.type === "agent") keepBlock(kept.current, event);
          if (event.type === "status") {
            if (event.status === "queued" && event.turn > 1) {
              await terminal.current?.write(`\r\n\x1b[0m\x1b[2m── turn ${event.turn} ──\x1b[0m\r\n`);
            }
            tellStatus.current();
          }
          if (event.type === "notice") tellStatus.current();
          render();
        }
      }
      tellStatus.current();
    };
    follow().catch((error: unknown) => {
      if (abort.signal.aborted) return;
      lost = error instanceof Error ? error.message : String(error);
      render();
    });
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [client, id, turn, terminal]);

  return watched;
}

function keepBlock(kept: { blocks: Of<"agent">[]; dropped: number }, event: Of<"agent">): void {
  const blocks = [...kept.blocks, event];
  kept.dropped += Math.max(0, blocks.length - maxBlocks);
  kept.blocks = blocks.slice(-maxBlocks);
}
