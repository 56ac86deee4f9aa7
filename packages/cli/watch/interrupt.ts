import { isCancel, select } from "@clack/prompts";

export type Choice = "stop" | "leave" | "watch";

/** Asks what Ctrl-C meant. A second Ctrl-C leaves. `signal` takes the question back. */
export async function askChoice(taskId: string, signal: AbortSignal): Promise<Choice> {
  const choice = await select<Choice>({
    message: `${taskId} is still running.`,
    options: [
      { value: "stop", label: "Stop the task" },
      { value: "leave", label: "Leave it running", hint: "or Ctrl-C" },
      { value: "watch", label: "Keep watching" },
    ],
    signal,
  });
  if (!isCancel(choice)) return choice;
  return signal.aborted ? "watch" : "leave";
}

/**
 * Calls `ask` at the first Ctrl-C, and `leave` at one that arrives while the question is not on the terminal yet. Once it
 * is, the terminal is in raw mode and the question itself reads the key.
 */
export function onInterrupt(ask: () => Promise<void>, leave: () => void): { [Symbol.dispose](): void } {
  let isAsking = false;
  const handle = () => {
    if (isAsking) {
      leave();
      return;
    }
    isAsking = true;
    void ask().finally(() => {
      isAsking = false;
    });
  };
  process.on("SIGINT", handle);
  return { [Symbol.dispose]: () => void process.off("SIGINT", handle) };
}
