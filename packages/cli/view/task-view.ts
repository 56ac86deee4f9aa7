import type { Retry, Task, TaskEvent } from "@concierge/client";

/** Shows a task while it runs. */
export interface TaskView {
  /** Called once, with the task as it is at the start. */
  begin(task: Task): void;
  event(event: TaskEvent): void;
  /** What the task costs so far. */
  cost(usd: number): void;
  /** The connection was lost and will be made again. */
  retry(retry: Retry): void;
  /** A remark that is not from the task. */
  note(text: string): void;
  /** Holds everything back while something else uses the terminal. */
  pause(): void;
  resume(): void;
  /** Called once, with the task as it ended. */
  end(task: Task): void;
  /** Leaves the terminal as it was. */
  close(): void;
}

/** What to show of an event in which an agent says or does something. Empty if nothing. */
export function textOf(event: TaskEvent, task: Task): string {
  if (event.type === "output") {
    // The other agents print JSON for programs; their events say the same for people.
    return task.agent === "shell" || event.stream === "stderr" ? event.text : "";
  }
  if (event.type !== "agent") return "";
  const { agent } = event;
  switch (agent.kind) {
    case "text":
      return withNewline(agent.text);
    case "tool_use":
      return `> ${agent.name} ${agent.input}\n`;
    case "tool_result":
      return agent.ok ? "" : `! ${withNewline(agent.text)}`;
    case "result":
      return "";
  }
}

function withNewline(text: string): string {
  return text.endsWith("\n") ? text : `${text}\n`;
}

/** The time of a turn from its first phase to its last. */
export function totalMs({ phases, turn }: Task): number {
  const times = phases.filter((phase) => phase.turn === turn).map(({ at }) => Date.parse(at));
  return times.length > 0 ? Math.max(...times) - Math.min(...times) : 0;
}
