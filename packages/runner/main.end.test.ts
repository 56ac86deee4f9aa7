import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { runFiles, runnerExit } from "@concierge/protocol";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { headless } from "../../test/testing/processes.ts";
import { accept, FakeConcierge, stopWhen } from "./testing/concierge.ts";
import { allPids, type Bundle, bundleRunner, Turn, until } from "./testing/runner.ts";

let bundle: Bundle;

beforeAll(async () => {
  bundle = await bundleRunner();
});

afterAll(() => bundle[Symbol.dispose]());

/** Ignores SIGTERM, and so do its children, which have left their session. */
const stubbornScript = [
  "trap '' TERM",
  `setsid bash -c 'trap "" TERM; echo escaped >&2; while :; do sleep 0.05; done' &`,
  headless("escaped"),
  "echo ready",
  "while :; do sleep 0.05; done",
].join("\n");

const isRunning = (concierge: FakeConcierge) =>
  concierge.text("stdout") === "ready\n" && concierge.text("stderr") === "escaped\n";

describe("a turn that ends by itself", () => {
  test.each([
    ["exit 3", { exitCode: 3, signal: null }],
    ["kill -SEGV $$", { exitCode: null, signal: "SIGSEGV" }],
    ["true", { exitCode: 0, signal: null, lastSeq: 0, text: "" }],
  ])("reports its exit: %s", async (script, expected) => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, script);
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(concierge.end).toMatchObject({ reason: "exited", ...expected });
  });

  test("has its directory, environment and markers, but not the runner's configuration", async () => {
    await using concierge = await FakeConcierge.start();
    const script = 'pwd; echo "$GREETING $CONCIERGE_TASK $CONCIERGE_TURN_NUMBER [$CONCIERGE_TURN]"; cat';
    const env = { GREETING: "hi", CONCIERGE_TASK: "task_other" };
    await using turn = new Turn(bundle, concierge, script, { turn: 7, env });
    await turn.launch().exited;
    expect(concierge.text("stdout")).toBe(`${turn.workDir}\nhi ${turn.config.taskId} 7 []\n`);
  });

  test("loses no output and leaves background processes running, which can still write", async () => {
    await using concierge = await FakeConcierge.start();
    const script = [
      "seq 1 5000",
      "(n=0; while :; do echo tick; n=$((n+1)); echo $n > ticks; sleep 0.02; done) &",
      "echo started",
      "exit 4",
    ].join("\n");
    await using turn = new Turn(bundle, concierge, script);
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(concierge.end).toMatchObject({ reason: "exited", exitCode: 4 });
    const lines = concierge.text("stdout").split("\n");
    expect(lines.slice(0, 5000)).toEqual(Array.from({ length: 5000 }, (_, n) => String(n + 1)));
    expect(lines).toContain("started");
    const ticks = () => Number(turn.read("ticks"));
    const then = ticks();
    await until("the background process has written much more", () => ticks() > then + 10);
  });

  test("does not wait for a silent background process", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "sleep 300 & echo started");
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(concierge.end?.text).toBe("started\n");
    expect(turn.processes().length).toBeGreaterThan(0);
  });
});

describe("an agent that cannot be started", () => {
  test.each([
    ["no such agent", { agent: "toString" }, 'there is no agent "toString"'],
    [
      "no such program",
      { env: { PATH: "/nonexistent" } },
      "bash is not in this sandbox: install bash in the base image",
    ],
    ["no such directory", { cwd: "/nonexistent" }, "the working directory /nonexistent does not exist"],
  ])("is reported: %s", async (_, overrides, detail) => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "echo hello", overrides);
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(concierge.end).toMatchObject({
      reason: "agent_missing",
      exitCode: null,
      signal: null,
      lastSeq: 0,
      detail,
    });
  });
});

describe("a limit", () => {
  test("on time kills an agent that ignores SIGTERM, with all its processes", async () => {
    await using concierge = await FakeConcierge.start();
    const limits = { maxDurationMs: 2_500, timings: { killGraceMs: 200 } };
    await using turn = new Turn(bundle, concierge, stubbornScript, limits);
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(concierge.end).toMatchObject({
      reason: "deadline",
      exitCode: null,
      signal: "SIGKILL",
      text: "ready\n",
    });
    expect(turn.processes()).toEqual([]);
  });

  test("on silence ends a silent agent and lets it clean up first", async () => {
    await using concierge = await FakeConcierge.start();
    const script = "trap 'echo bye; exit 9' TERM; echo hello; while :; do sleep 0.05; done";
    await using turn = new Turn(bundle, concierge, script, { inactivityMs: 1_000 });
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(concierge.end).toMatchObject({ reason: "inactivity", exitCode: 9, text: "hello\nbye\n" });
    expect(turn.processes()).toEqual([]);
  });

  test("on silence does not end an agent that writes output", async () => {
    await using concierge = await FakeConcierge.start();
    const script = "for n in $(seq 1 20); do printf .; sleep 0.1; done";
    await using turn = new Turn(bundle, concierge, script, { inactivityMs: 1_500 });
    await turn.launch().exited;
    expect(concierge.end).toMatchObject({ reason: "exited", text: ".".repeat(20) });
  });
});

describe("a stop", () => {
  test("kills processes that ignore SIGTERM or left their session, and sends nothing more", async () => {
    await using concierge = await FakeConcierge.start();
    stopWhen(concierge, (post) => post.kind === "beat" && isRunning(concierge));
    await using turn = new Turn(bundle, concierge, stubbornScript, {
      timings: { beatMs: 100, killGraceMs: 200 },
    });
    expect(await turn.launch().exited).toBe(runnerExit.stopped);
    expect(turn.processes()).toEqual([]);
    expect(concierge.end).toBeUndefined();
    expect(concierge.posts.at(-1)?.kind).toBe("beat");
  });

  test("reaches a silent agent within four seconds with the default timings", async () => {
    await using concierge = await FakeConcierge.start();
    stopWhen(concierge, (post) => post.kind === "beat");
    await using turn = new Turn(bundle, concierge, "sleep 300");
    const startedMs = performance.now();
    expect(await turn.launch().exited).toBe(runnerExit.stopped);
    expect(performance.now() - startedMs).toBeLessThan(4_000);
    expect(turn.processes()).toEqual([]);
  });

  test("also reaches an agent that writes all the time", async () => {
    await using concierge = await FakeConcierge.start();
    stopWhen(concierge, () => concierge.batches.length >= 5);
    await using turn = new Turn(bundle, concierge, "yes");
    expect(await turn.launch().exited).toBe(runnerExit.stopped);
    expect(turn.processes()).toEqual([]);
    expect(concierge.posts.length).toBe(6);
  });

  test.each([401, 403, 404, 409, 410])("follows Concierge's own status %i", async (status) => {
    await using concierge = await FakeConcierge.start();
    concierge.behave = () => ({ status });
    await using turn = new Turn(bundle, concierge, "echo hello; exec sleep 300");
    expect(await turn.launch().exited).toBe(runnerExit.stopped);
    expect(turn.processes()).toEqual([]);
    expect(concierge.posts.length).toBe(1);
  });

  test("is not obeyed from a proxy: the agent continues and its output arrives later", async () => {
    await using concierge = await FakeConcierge.start();
    const page = { "content-type": "text/html" };
    const proxyAnswers: { status: number; headers?: Record<string, string>; body?: string }[] = [
      { status: 401, headers: { "www-authenticate": "Basic" } },
      { status: 403, headers: page, body: "<h1>Request blocked</h1>" },
      { status: 404, body: '{"code":"not_found"}' },
      { status: 409, headers: { "x-concierge-turn": "task_other/1" }, body: '{"code":"task_active"}' },
      { status: 200, headers: page, body: "<form action=/login>" },
      { status: 302, headers: { location: "/login" } },
    ];
    concierge.behave = (post, nth) => {
      const proxy = proxyAnswers[nth - 1];
      return proxy === undefined ? accept(post) : { proxy };
    };
    const script = "for n in 1 2 3; do echo $n; done; until [ -e go ]; do sleep 0.02; done; echo 4";
    await using turn = new Turn(bundle, concierge, script);
    const { exited } = turn.launch();
    await until("the proxy is gone", () => concierge.text("stdout") === "1\n2\n3\n");
    expect(concierge.posts.length).toBeGreaterThan(proxyAnswers.length);
    turn.touch("go");
    expect(await exited).toBe(runnerExit.done);
    expect(concierge.text("stdout")).toBe("1\n2\n3\n4\n");
    expect(concierge.faults).toEqual([]);
    expect(concierge.end).toMatchObject({ reason: "exited", exitCode: 0 });
  });

  test("leaves the processes of an earlier turn alone", async () => {
    await using concierge = await FakeConcierge.start();
    await using first = new Turn(bundle, concierge, "sleep 300 & exit 0");
    await first.launch().exited;
    stopWhen(concierge, (post) => post.kind === "output");
    const { taskId } = first.config;
    await using second = new Turn(bundle, concierge, "echo hello; exec sleep 300", { taskId, turn: 2 });
    const before = first.processes();
    concierge.batches.length = 0;
    expect(await second.launch().exited).toBe(runnerExit.stopped);
    expect(before.length).toBeGreaterThan(0);
    expect(second.processes()).toEqual(before);
  });

  test("by a signal kills the agent and reports nothing", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, stubbornScript, { timings: { killGraceMs: 200 } });
    const runner = turn.launch();
    await until("the agent runs", () => isRunning(concierge));
    runner.signal("SIGTERM");
    expect(await runner.exited).toBe(runnerExit.signalled);
    expect(turn.processes()).toEqual([]);
    expect(concierge.end).toBeUndefined();
  });
});

describe("a launch", () => {
  test("writes the pids of the runner and the agent to the state file", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "echo $$ > pid; until [ -e go ]; do sleep 0.02; done");
    const { pid, exited } = turn.launch();
    await until("the agent is in the state", () => turn.state()?.agentPid === Number(turn.read("pid")));
    expect(turn.state()).toMatchObject({
      pid,
      lastOutputAt: null,
      producedSeq: 0,
      ackedSeq: 0,
      activity: "none",
    });
    turn.touch("go");
    await exited;
  });

  test("shows by the age of its state file that the runner is suspended", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "sleep 300", { timings: { stateMs: 100 } });
    const runner = turn.launch();
    const writtenAt = () => Date.parse(turn.state()?.at ?? "");
    await until("the agent is in the state", () => typeof turn.state()?.agentPid === "number");
    const first = writtenAt();
    await until("the state is refreshed without a change", () => writtenAt() > first + 1_000);
    runner.signal("SIGSTOP");
    await until("the runner is suspended", () => isStopped(runner.pid));
    const last = writtenAt();
    await until("the state is old", () => Date.now() - last > 2_500);
    expect(writtenAt()).toBe(last);
    runner.signal("SIGCONT");
    await until("the state is refreshed again", () => writtenAt() > last);
  });

  test("with an invalid configuration prints one line and exits", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "echo hello", { turn: 0 });
    const runner = turn.launch();
    expect(await runner.exited).toBe(runnerExit.badConfig);
    expect(runner.stderr()).toBe("concierge runner: CONCIERGE_TURN.turn must be a positive integer\n");
    expect(readdirSync(turn.runDir)).toEqual([runFiles.prompt]);
  });

  test("shows no secret in process arguments or files", async () => {
    await using concierge = await FakeConcierge.start();
    const env = { KEY: "s3cr3t-value-42" };
    const script = 'echo "$KEY"; until [ -e go ]; do sleep 0.02; done';
    await using turn = new Turn(bundle, concierge, script, { env });
    const { exited } = turn.launch();
    await until("the agent has printed", () => concierge.text("stdout") === "***\n");
    const visible = [
      ...allPids().map((pid) => readOrEmpty(`/proc/${pid}/cmdline`)),
      ...filesOf(turn.runDir),
    ].join("\n");
    turn.touch("go");
    await exited;
    const left = filesOf(turn.runDir).join("\n");
    for (const secret of [env.KEY, turn.config.token]) {
      expect(visible).not.toContain(secret);
      expect(left).not.toContain(secret);
    }
    expect(readdirSync(turn.runDir).sort()).toEqual([runFiles.prompt, runFiles.state]);
  });
});

test("a post that Concierge rejects for good ends the turn with the reason", async () => {
  await using concierge = await FakeConcierge.start();
  concierge.behave = (post) => (post.kind === "output" ? { status: 413 } : accept(post));
  await using turn = new Turn(bundle, concierge, "echo hello; exec sleep 300");
  const runner = turn.launch();
  expect(await runner.exited).toBe(runnerExit.runnerError);
  const detail = "Concierge refused the runner's output with status 413 (some_code)";
  expect(concierge.end).toMatchObject({ reason: "runner_error", lastSeq: 0, detail });
  expect(runner.stderr()).toBe(`concierge runner: ${detail}\n`);
  expect(turn.processes()).toEqual([]);
});

test("beats are sent only in silence and report the agent's activity", async () => {
  await using concierge = await FakeConcierge.start();
  const script = "for n in 1 2 3 4 5 6; do echo $n; sleep 0.1; done; until [ -e go ]; do sleep 0.02; done";
  await using turn = new Turn(bundle, concierge, script, { timings: { beatMs: 500, batchMs: 20 } });
  const { exited } = turn.launch();
  await until("two beats came", () => concierge.of("beat").length === 2);
  turn.touch("go");
  await exited;
  expect(concierge.of("beat").map((post) => post.body)).toEqual(Array(2).fill('{"activity":"none"}'));
  const gaps = concierge.posts.flatMap((post, n) => {
    const before = concierge.posts[n - 1];
    return post.kind === "beat" && before !== undefined ? [post.atMs - before.atMs] : [];
  });
  for (const gapMs of gaps) expect(gapMs).toBeGreaterThan(490);
});

function filesOf(directory: string): string[] {
  return readdirSync(directory).map((name) => readOrEmpty(join(directory, name)));
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

function isStopped(pid: number): boolean {
  return /^State:\s+T/m.test(readOrEmpty(`/proc/${pid}/status`));
}
