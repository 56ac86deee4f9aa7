import { describe, expect, test } from "vitest";
import { formatLogLine, rawLogLine } from "./format.ts";

process.env.TZ = "UTC";
const time = "2026-11-18T04:05:06.789Z";
const _aws = { Timestamp: Date.parse(time) };
const request = {
  _aws,
  method: "POST",
  path: "/v1/tasks",
  status: "202",
  durationMs: "41",
  http_requests: 1,
};
const worker = { _aws, messages: 1, function: "Worker", taskId: "task_1" };
const report = {
  tasks: { stopped: 2, kept: 0 },
  sessions: {},
  orphans: ["a"],
  evicted: 0,
  failures: [],
  complete: true,
  durationMs: 120,
};

describe("a log line becomes text for a person", () => {
  test.each<[string, string, object, string[]]>([
    ["a request", "Api#1", request, ["04:05:06 api     POST /v1/tasks 202 41 ms"]],
    [
      "a request that changes a task",
      "Api#2",
      { ...request, turn_queued: 1, verb: "start", taskId: "task_1" },
      ["04:05:06 api     POST /v1/tasks 202 41 ms", "04:05:06 task    task_1 queued"],
    ],
    [
      "a turn that got its sandbox",
      "Worker#1",
      { ...worker, room_given: 1, room_ms: 3089, origin: "cold" },
      ["04:05:06 task    task_1 running, sandbox cold 3.1 s"],
    ],
    [
      "a stop",
      "Api#1",
      {
        _aws,
        taskId: "task_1",
        stop_begun: 1,
        cause: "stopped_by_user",
        turn_ended: 1,
        outcome: "stopped_by_user",
        turn_ms: 900,
      },
      ["04:05:06 task    task_1 stopping: stopped_by_user", "04:05:06 task    task_1 stopped_by_user 900 ms"],
    ],
    [
      "a reaper pass",
      "Reaper#1",
      { level: "info", message: "reaper pass finished", time, report },
      ["04:05:06 reaper  reaper pass finished: tasks stopped 2, orphans 1 120 ms"],
    ],
    [
      "a reaper pass that ran out of time",
      "Reaper#1",
      {
        level: "info",
        message: "reaper pass finished",
        time,
        report: { complete: false, durationMs: 60_000 },
      },
      ["04:05:06 reaper  reaper pass finished: nothing to do, out of time 60.0 s"],
    ],
    [
      "an error",
      "Worker#1",
      {
        level: "error",
        message: "message failed",
        time,
        error: { name: "TypeError", message: "no such table" },
      },
      ["04:05:06 worker  message failed: no such table"],
    ],
    ["a message that changed nothing", "Timer#1", { ...worker, function: "Timer" }, []],
  ])("%s", (_name, source, entry, text) => {
    expect(formatLogLine(`[${source}] ${JSON.stringify(entry)}`, false)).toEqual(text);
  });

  test.each(["starting the engines", "[Sandbox] NOT ISOLATED", "[Api#1] {broken", '[Api#1] {"some":"json"}'])(
    "%s stays as it is",
    (line) => {
      expect(formatLogLine(line, true)).toEqual([line]);
    },
  );

  test("a failed request is red on a terminal", () => {
    const [text] = formatLogLine(`[Api#1] ${JSON.stringify({ ...request, status: "500" })}`, true);
    expect(text).toContain("\u001b[31m500\u001b[39m");
  });
});

test("a raw log line is the JSON that the function wrote", () => {
  expect(rawLogLine('[Api#1] {"a":1}')).toBe('{"a":1}');
  expect(rawLogLine("[Sandbox] NOT ISOLATED")).toBe("[Sandbox] NOT ISOLATED");
});
