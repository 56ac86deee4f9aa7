import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runFiles } from "@concierge/protocol";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createOutput } from "../output/output.ts";
import { createSpool } from "../output/spool.ts";
import { makePipes, type Pipes } from "../process/pipes.ts";
import { parseLaunchConfig } from "./config.ts";
import { createSupervisor } from "./supervise.ts";

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "concierge-supervise-"));
});

afterEach(() => rmSync(directory, { recursive: true, force: true }));

function setUp(pipes: Promise<Pipes>) {
  writeFileSync(join(directory, runFiles.prompt), "echo hello");
  const config = parseLaunchConfig(
    JSON.stringify({
      protocol: 1,
      taskId: `task_${process.pid}`,
      turn: 1,
      url: "http://127.0.0.1:1",
      token: "hidden-token",
      agent: "shell",
      runDir: directory,
      cwd: directory,
      maxDurationMs: 3_600_000,
      inactivityMs: 60_000,
      maxOutputBytes: 1_000,
      env: {},
    }),
  );
  const spool = createSpool(join(directory, "spool"), 1_000);
  const output = createOutput({ ...config, secrets: [], spool, now: () => 0 });
  const calls: string[] = [];
  const supervisor = createSupervisor({
    config,
    pipes,
    output,
    onStarted: () => calls.push("started"),
    onChange: () => calls.push(output.text()),
  });
  return { supervisor, calls };
}

test("the start of an agent is announced before its first output", async () => {
  const { supervisor, calls } = setUp(makePipes(directory));
  expect(await supervisor.run()).toEqual({
    reason: "exited",
    exitCode: 0,
    signal: null,
    agentMs: expect.any(Number),
  });
  expect(calls).toEqual(["started", "", "hello\n"]);
});

test("a turn that is killed while its pipes are made does not start its agent", async () => {
  const pipes = Promise.withResolvers<Pipes>();
  const { supervisor, calls } = setUp(pipes.promise);
  const ended = supervisor.run();
  await supervisor.kill();
  pipes.resolve(await makePipes(directory));
  expect(await ended).toMatchObject({ reason: "agent_missing", exitCode: null });
  expect([supervisor.agentPid(), calls]).toEqual([null, []]);
});

test("an agent whose pipes cannot be made is reported as missing", async () => {
  const { supervisor } = setUp(makePipes(join(directory, "missing")));
  expect(await supervisor.run()).toMatchObject({
    reason: "agent_missing",
    detail: "mkfifo cannot make the agent's pipes",
  });
});
