import { stripVTControlCharacters } from "node:util";
import { ConciergeError, type TaskEvent } from "@concierge/client";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createTask, output, progress, said, status } from "../testing/task.ts";
import { createLiveView } from "./live.ts";
import { createJsonView, createPlainView } from "./plain.ts";
import type { TaskView } from "./task-view.ts";

const run = [
  status("queued", 0),
  status("provisioning", 1),
  progress("creating", "a sandbox"),
  status("running", 3),
  output("hello\n"),
  output("no newline"),
  status("succeeded", 5),
];
const lost = {
  error: new ConciergeError({ code: "connection_failed", status: 0, detail: "The connection broke." }),
  delayMs: 1,
};

function play(view: TaskView, events: readonly TaskEvent[], task = createTask()): void {
  view.begin(task);
  for (const event of events) view.event(event);
  view.end(task);
  view.close();
}

describe("in a pipe", () => {
  it("phases are lines that start with --, and the output is as it was", () => {
    let text = "";
    play(
      createPlainView((part) => (text += part)),
      run,
    );
    expect(text).toBe(`-- task_1 turn 1
-- queued
-- provisioning (queued took 1.0 s)
-- creating: a sandbox
-- running (provisioning took 2.0 s)
hello
no newline
-- succeeded after 5.0 s, $0.00
`);
  });

  it("the end says why, what was pushed and what it cost", () => {
    let text = "";
    const task = createTask({
      status: "failed",
      error: { code: "push_failed", detail: "The remote refused." },
      result: { exitCode: 0, text: "", commit: "abcdef0123456789", branch: "work", pushed: true },
      usage: { inputTokens: 1, outputTokens: 1, costUsd: 0.0123 },
    });
    play(
      createPlainView((part) => (text += part)),
      [],
      task,
    );
    expect(text).toContain(
      "-- failed after 5.0 s, $0.0123, pushed abcdef0123 to work: The remote refused. (push_failed)",
    );
  });

  it("an agent's JSON is hidden, and what it says and does is shown", () => {
    let text = "";
    const events = [
      output('{"type":"assistant"}\n'),
      output("a warning\n", "stderr"),
      said({ kind: "text", text: "I look." }),
      said({ kind: "tool_use", name: "Bash", input: "ls" }),
      said({ kind: "tool_result", ok: true, text: "files" }),
      said({ kind: "tool_result", ok: false, text: "denied" }),
      said({ kind: "result", ok: true, text: "I look." }),
    ];
    play(
      createPlainView((part) => (text += part)),
      events,
      createTask({ agent: "claude" }),
    );
    expect(text.split("\n").slice(1, -2)).toEqual(["a warning", "I look.", "> Bash ls", "! denied"]);
  });

  it("JSON has one event per line, then the task", () => {
    const lines: string[] = [];
    play(
      createJsonView((part) => lines.push(part)),
      run,
    );
    const parsed = lines.map((line) => JSON.parse(line));
    expect(parsed.slice(0, -1)).toEqual(run);
    expect(parsed.at(-1)).toEqual({ type: "task", task: createTask() });
  });
});

describe("on a terminal", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function setUp(columns = 60) {
    const lines = [""];
    let writes = "";
    const screen = {
      columns,
      /** Obeys what the view uses: line breaks and erasing a line. */
      write(text: string) {
        writes += text;
        for (const part of stripVTControlCharacters(text.replaceAll("\r\x1b[2K", "\r")).split(/(\n|\r)/)) {
          if (part === "\n") lines.push("");
          else if (part === "\r") lines[lines.length - 1] = "";
          else lines[lines.length - 1] += part;
        }
      },
    };
    const now = () => Date.UTC(2026, 10, 18, 0, 0, 10);
    return { view: createLiveView({ screen, now }), lines, writes: () => writes };
  }

  it("finished phases stay with their durations, and the progress line is gone at the end", () => {
    const { view, lines } = setUp();
    play(view, run);
    expect(lines).toEqual([
      "task_1 shell, session default, turn 1",
      "✓ queued        1.0 s",
      "✓ provisioning  2.0 s",
      "hello",
      "no newline",
      "✓ running       2.0 s",
      "✓ succeeded after 5.0 s, $0.00",
      "",
    ]);
  });

  it("the last line shows phase, time, step and cost, cut to the width", () => {
    const { view, lines } = setUp(40);
    view.begin(createTask());
    for (const event of run.slice(0, 3)) view.event(event);
    view.cost(1.5);
    vi.advanceTimersByTime(200);
    expect(lines.at(-1)).toMatch(/^⠙ provisioning 9\.0 s · creating: a/);
    expect(lines.at(-1)).toHaveLength(39);
    view.close();
    expect(lines.at(-1)).toBe("");
  });

  it("output without a line break is not overwritten", () => {
    const { view, lines } = setUp();
    view.begin(createTask());
    for (const event of run.slice(0, 4)) view.event(event);
    view.event(output("50 %"));
    vi.advanceTimersByTime(1_000);
    expect(lines.at(-1)).toBe("50 %");
    view.event(output(" done\n"));
    expect(lines.at(-2)).toBe("50 % done");
    expect(lines.at(-1)).toContain("running");
    view.close();
  });

  it("a pause holds everything back, and nothing is lost", () => {
    const { view, lines, writes } = setUp();
    view.begin(createTask());
    for (const event of run.slice(0, 4)) view.event(event);
    view.pause();
    const before = writes();
    view.event(output("meanwhile\n"));
    vi.advanceTimersByTime(1_000);
    expect(writes()).toBe(before);
    view.resume();
    expect(lines.at(-2)).toBe("meanwhile");
    view.close();
  });

  it("a lost connection is shown until the next event", () => {
    const { view, lines } = setUp(80);
    view.begin(createTask());
    view.event(status("running", 3));
    view.retry(lost);
    expect(lines.at(-1)).toContain("The connection broke. Connecting again");
    view.event(output("back\n"));
    expect(lines.at(-1)).not.toContain("broke");
    view.close();
  });

  it("a notice cannot control the terminal", () => {
    const { view, writes } = setUp();
    view.begin(createTask());
    view.event({
      cursor: "n",
      at: "",
      turn: 1,
      type: "notice",
      code: "x",
      detail: "a\x1b]0;evil\x07\x1b[2Jb",
    });
    view.close();
    expect(writes()).not.toContain("evil");
    expect(writes()).not.toContain("\x1b[2J");
  });
});
