import { isTerminal, type Task } from "@concierge/client";
import { formatDuration, formatUsd } from "./format.ts";
import { type TaskView, textOf, totalMs } from "./task-view.ts";

type Write = (text: string) => void;

/** For pipes: the output as it is, and everything else as lines that start with `--`. */
export function createPlainView(write: Write = (text) => void process.stdout.write(text)): TaskView {
  let shown: Task | undefined;
  let previous: { status: string; at: number } | undefined;
  let isLineOpen = false;

  const line = (text: string) => {
    write(`${isLineOpen ? "\n" : ""}-- ${text}\n`);
    isLineOpen = false;
  };

  return {
    begin(task) {
      shown = task;
      line(`${task.id} turn ${task.turn}`);
    },
    event(event) {
      if (!shown) return;
      if (event.type === "status") {
        const at = Date.parse(event.at);
        const took = previous ? ` (${previous.status} took ${formatDuration(at - previous.at)})` : "";
        // The end has a line of its own.
        if (!isTerminal(event.status)) line(`${event.status}${took}`);
        previous = { status: event.status, at };
      } else if (event.type === "progress") {
        line(`${event.step}: ${event.detail}`);
      } else if (event.type === "notice") {
        line(`notice ${event.code}: ${event.detail}`);
      } else {
        const text = textOf(event, shown);
        write(text);
        if (text !== "") isLineOpen = !text.endsWith("\n");
      }
    },
    cost() {},
    retry({ error }) {
      line(`${error.detail} Connecting again.`);
    },
    note: line,
    pause() {},
    resume() {},
    end(task) {
      line(summaryOf(task));
    },
    close() {},
  };
}

/** One sentence about how a turn ended. */
export function summaryOf(task: Task): string {
  const { status, error, result, usage } = task;
  const parts = [`${status} after ${formatDuration(totalMs(task))}`, formatUsd(usage.costUsd)];
  if (result?.pushed) parts.push(`pushed ${result.commit?.slice(0, 10)} to ${result.branch}`);
  return `${parts.join(", ")}${error ? `: ${error.detail} (${error.code})` : ""}`;
}

/** For programs: each event as a line of JSON, then the task. */
export function createJsonView(write: Write = (text) => void process.stdout.write(text)): TaskView {
  return {
    begin() {},
    event: (event) => write(`${JSON.stringify(event)}\n`),
    cost() {},
    retry() {},
    note() {},
    pause() {},
    resume() {},
    end: (task) => write(`${JSON.stringify({ type: "task", task })}\n`),
    close() {},
  };
}
