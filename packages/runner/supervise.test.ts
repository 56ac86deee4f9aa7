import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { parseLaunchConfig } from "./config.ts";
import { createOutput } from "./output.ts";
import { makePipes, type Pipes } from "./pipes.ts";
import { RUN_FILES } from "./protocol.ts";
import { createSpool } from "./spool.ts";
import { createSupervisor } from "./supervise.ts";

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "concierge-supervise-"));
});

afterEach(() => rmSync(directory, { recursive: true, force: true }));

function setUp(pipes: Promise<Pipes>) {
  writeFileSync(join(directory, RUN_FILES.prompt), "echo hello");
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
  const seen: string[] = [];
  const supervisor = createSupervisor({
    config,
    pipes,
    output,
    onStarted: () => seen.push("started"),
    onChange: () => seen.push(output.text()),
  });
  return { supervisor, seen };
}

test("an agent that has started is told of before its first word", async () => {
  const { supervisor, seen } = setUp(makePipes(directory));
  expect(await supervisor.run()).toEqual({
    reason: "exited",
    exitCode: 0,
    signal: null,
    agentMs: expect.any(Number),
  });
  expect(seen).toEqual(["started", "", "hello\n"]);
});

test("a turn that is killed while its pipes are made starts no agent", async () => {
  const made = Promise.withResolvers<Pipes>();
  const { supervisor, seen } = setUp(made.promise);
  const ended = supervisor.run();
  await supervisor.kill();
  made.resolve(await makePipes(directory));
  expect(await ended).toMatchObject({ reason: "agent_missing", exitCode: null });
  expect([supervisor.agentPid(), seen]).toEqual([null, []]);
});

test("pipes that cannot be made are an agent that cannot be started", async () => {
  const { supervisor } = setUp(makePipes(join(directory, "missing")));
  expect(await supervisor.run()).toMatchObject({
    reason: "agent_missing",
    detail: "mkfifo cannot make the agent's pipes",
  });
});
