import { type Client, isTerminal, type Task } from "@concierge/client";
import { type ExitCode, exitCodes, explain } from "../errors.ts";
import { createLiveView } from "../view/live.ts";
import { createJsonView, createPlainView } from "../view/plain.ts";
import type { TaskView } from "../view/task-view.ts";
import { askChoice, onInterrupt } from "./interrupt.ts";

/** Time between looks at what a running task costs. */
const costEveryMs = 3_000;

class Left extends Error {}

/** Shows the task's current turn until it ends or the user leaves. The exit code is that of the turn. */
export async function watchTask(client: Client, task: Task, { json = false } = {}): Promise<ExitCode> {
  const isInteractive = Boolean(process.stdin.isTTY && process.stdout.isTTY) && !json;
  const view = createView({ json, isInteractive });
  const leaving = new AbortController();
  let question: AbortController | undefined;
  using _interrupt = isInteractive ? onInterrupt(ask, leave) : undefined;
  using _cost = watchCost(client, task, view);
  view.begin(task);
  try {
    for await (const event of client.events(task.id, { signal: leaving.signal, onRetry: view.retry })) {
      if (event.turn === task.turn) view.event(event);
      if (event.turn === task.turn && event.type === "status" && isTerminal(event.status)) break;
    }
    question?.abort();
    view.resume();
    const last = await client.get(task.id);
    view.end(last);
    return last.status === "succeeded" ? exitCodes.done : exitCodes.failed;
  } catch (error) {
    if (!(error instanceof Left)) throw error;
    view.resume();
    view.close();
    view.note(`${task.id} is still running.`);
    view.note(
      `Watch it again with \`concierge watch ${task.id}\`, end it with \`concierge stop ${task.id}\`.`,
    );
    return exitCodes.done;
  } finally {
    view.close();
  }

  function leave(): void {
    leaving.abort(new Left());
  }

  async function ask(): Promise<void> {
    view.pause();
    // A signal of its own: the library writes to the terminal when one is aborted after the answer.
    question = new AbortController();
    const choice = await askChoice(task.id, question.signal);
    question = undefined;
    view.resume();
    if (choice === "leave") leave();
    if (choice === "stop") await stop();
  }

  /** The stream shows how the task ends. */
  async function stop(): Promise<void> {
    view.note("Stopping. It has ended when no process of it is left.");
    try {
      await client.stop(task.id);
    } catch (error) {
      const { message, next = "" } = explain(error);
      view.note(`Not stopped: ${message} ${next}`);
    }
  }
}

function createView({ json, isInteractive }: { json: boolean; isInteractive: boolean }): TaskView {
  if (json) return createJsonView();
  return isInteractive ? createLiveView() : createPlainView();
}

/** Events do not say what a turn costs. A shell costs nothing. */
function watchCost(client: Client, { id, agent }: Task, view: TaskView): { [Symbol.dispose](): void } {
  if (agent === "shell") return { [Symbol.dispose]() {} };
  const look = async () => view.cost((await client.get(id)).usage.costUsd);
  const timer = setInterval(() => void look().catch(() => {}), costEveryMs);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
