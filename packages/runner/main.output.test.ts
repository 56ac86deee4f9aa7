import { createHash, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { runnerExit } from "@concierge/protocol";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accept, FakeConcierge } from "./testing/concierge.ts";
import { type Bundle, bundleRunner, nodeVersions, peakMemoryBytes, Turn, until } from "./testing/runner.ts";

const mebibyte = 1024 * 1024;
const peakMaxBytes = 200 * mebibyte;

let bundle: Bundle;

beforeAll(async () => {
  bundle = await bundleRunner();
});

afterAll(() => bundle[Symbol.dispose]());

const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

test("the bundle is one file without imports", () => {
  expect(bundle.imports).toEqual([]);
});

describe("the agent's output", () => {
  test.each(nodeVersions)("reaches Concierge with the end on %s", async (_, node) => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "echo hello; echo oops >&2", { node });
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect([concierge.text("stdout"), concierge.text("stderr")]).toEqual(["hello\n", "oops\n"]);
    expect(concierge.end).toEqual({
      lastSeq: concierge.batches.length,
      exitCode: 0,
      signal: null,
      reason: "exited",
      agentMs: expect.toSatisfy(Number.isInteger),
      outputCutBytes: 0,
      text: "hello\n",
    });
    expect(new Set(concierge.posts.map((post) => post.authorization))).toEqual(
      new Set([`Bearer ${turn.config.token}`]),
    );
  });

  test("is sent at once the first time, however long a batch collects", async () => {
    await using concierge = await FakeConcierge.start();
    const script = "echo early; until [ -e go ]; do sleep 0.02; done; echo late";
    const timings = { batchMs: 600_000 };
    await using turn = new Turn(bundle, concierge, script, { timings });
    const { exited } = turn.launch();
    await until("the first line is there", () => concierge.text("stdout") === "early\n");
    turn.touch("go");
    expect(await exited).toBe(runnerExit.done);
    expect(concierge.of("output").length).toBe(2);
  });

  test("arrives while the agent is running", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(
      bundle,
      concierge,
      "echo early; until [ -e go ]; do sleep 0.02; done; echo late",
    );
    const { exited } = turn.launch();
    await until("the first line is there", () => concierge.text("stdout") === "early\n");
    turn.touch("go");
    expect(await exited).toBe(runnerExit.done);
    expect(concierge.text("stdout")).toBe("early\nlate\n");
  });

  test("keeps the order of the two streams", async () => {
    await using concierge = await FakeConcierge.start();
    const wait = (name: string) => `until [ -e ${name} ]; do sleep 0.02; done`;
    const script = `printf a; ${wait("go1")}; printf b >&2; ${wait("go2")}; printf c; printf d`;
    await using turn = new Turn(bundle, concierge, script);
    const { exited } = turn.launch();
    await until("a is there", () => concierge.text("stdout") === "a");
    turn.touch("go1");
    await until("b is there", () => concierge.text("stderr") === "b");
    turn.touch("go2");
    await exited;
    const order = concierge.chunks().map(({ stream, bytes }) => `${stream}:${bytes}`);
    expect(order.join(" ")).toMatch(/^stdout:a stderr:b stdout:c ?(stdout:)?d$/);
  });

  test("can be written through /dev/stdout and /dev/stderr", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "echo out > /dev/stdout; echo err | tee /dev/stderr");
    await turn.launch().exited;
    expect([concierge.text("stdout"), concierge.text("stderr")]).toEqual(["out\nerr\n", "err\n"]);
  });

  test.each([
    ["random bytes", randomBytes(mebibyte)],
    ["a line of 5 MB without a newline", Buffer.alloc(5 * mebibyte, "x")],
    ["multi-byte characters", Buffer.from("aé€🦊".repeat(100_000))],
    ["a last line without a newline", Buffer.from("one\ntwo")],
    ["a single zero byte", Buffer.from([0])],
  ])("is delivered byte for byte: %s", async (_, bytes) => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "cat data; cat data >&2");
    writeFileSync(join(turn.workDir, "data"), bytes);
    await turn.launch().exited;
    expect(concierge.bytes("stdout").equals(bytes)).toBe(true);
    expect(concierge.bytes("stderr").equals(bytes)).toBe(true);
    expect(concierge.faults).toEqual([]);
  });

  test("never splits a character over two chunks", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "cat data");
    writeFileSync(join(turn.workDir, "data"), "é€🦊".repeat(100_000));
    await turn.launch().exited;
    expect(concierge.chunks().length).toBeGreaterThan(1);
    const decoder = new TextDecoder("utf-8", { fatal: true });
    for (const { bytes } of concierge.chunks()) expect(() => decoder.decode(bytes)).not.toThrow();
  });

  test("is delivered exactly at 50 MB, with flat memory", async () => {
    await using concierge = await FakeConcierge.start();
    const bytes = randomBytes(50 * mebibyte);
    await using turn = new Turn(bundle, concierge, "cat data");
    writeFileSync(join(turn.workDir, "data"), bytes);
    const { pid, exited } = turn.launch();
    let peakBytes = Number.NaN;
    concierge.behave = (post) => {
      if (post.kind === "end") peakBytes = peakMemoryBytes(pid);
      return accept(post);
    };
    expect(await exited).toBe(runnerExit.done);
    expect(sha256(concierge.bytes("stdout"))).toBe(sha256(bytes));
    expect(peakBytes).toBeLessThan(peakMaxBytes);
  });

  test("beyond the cap is dropped and counted without blocking the agent", async () => {
    await using concierge = await FakeConcierge.start();
    const script = "seq 1 10000; head -c 20000000 /dev/zero; echo finished > finished";
    await using turn = new Turn(bundle, concierge, script, { maxOutputBytes: 10_000 });
    await turn.launch().exited;
    const whole = Array.from({ length: 10_000 }, (_, n) => `${n + 1}\n`).join("");
    expect(concierge.text("stdout")).toBe(whole.slice(0, 10_000));
    expect(concierge.end?.outputCutBytes).toBe(whole.length - 10_000 + 20_000_000);
    expect(turn.read("finished")).toBe("finished\n");
  });
});

describe("while Concierge cannot accept output", () => {
  test("the runner spools to disk with flat memory, and nothing is lost, duplicated or reordered", async () => {
    await using concierge = await FakeConcierge.start();
    const bytes = randomBytes(30 * mebibyte);
    await using turn = new Turn(bundle, concierge, "cat data; echo finished > finished");
    writeFileSync(join(turn.workDir, "data"), bytes);
    await concierge.down();
    const { pid, exited } = turn.launch();
    await until("the agent has written everything", () => turn.read("finished") === "finished\n");
    await until("the state shows undelivered output", () => (turn.state()?.producedSeq ?? 0) > 100);
    expect(turn.state()?.ackedSeq).toBe(0);
    expect(peakMemoryBytes(pid)).toBeLessThan(peakMaxBytes);
    await concierge.up();
    expect(await exited).toBe(runnerExit.done);
    expect(sha256(concierge.bytes("stdout"))).toBe(sha256(bytes));
    expect(concierge.faults).toEqual([]);
    expect(turn.state()).toMatchObject({ ackedSeq: concierge.batches.length });
  });

  test("a full spool pauses the agent, which does not count as silence", async () => {
    await using concierge = await FakeConcierge.start();
    const bytes = randomBytes(20 * mebibyte);
    const limits = { maxSpoolBytes: 2 * mebibyte, inactivityMs: 1_000 };
    await using turn = new Turn(bundle, concierge, "cat data; echo finished > finished", limits);
    writeFileSync(join(turn.workDir, "data"), bytes);
    let firstMs: number | undefined;
    let finishedInOutage = false;
    concierge.behave = (post) => {
      firstMs ??= post.atMs;
      if (post.atMs - firstMs > 2_500) return accept(post);
      finishedInOutage ||= turn.read("finished") !== "";
      return { status: 503 };
    };
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(finishedInOutage).toBe(false);
    expect(concierge.end?.reason).toBe("exited");
    expect(sha256(concierge.bytes("stdout"))).toBe(sha256(bytes));
  });

  test("an agent paused by a spool that never empties is ended at the cap, and its output is kept", async () => {
    await using concierge = await FakeConcierge.start();
    const limits = { maxSpoolBytes: mebibyte, inactivityMs: 200, activityCapMs: 2_000 };
    const script = "echo $$ > pid; head -c 20000000 /dev/zero";
    await using turn = new Turn(bundle, concierge, script, limits);
    let isOut = true;
    concierge.behave = (post) => (isOut ? { status: 503 } : accept(post));
    const { exited } = turn.launch();
    await until("the agent runs", () => turn.read("pid") !== "");
    await until("it is ended", () => turn.processes().length === 0);
    isOut = false;
    expect(await exited).toBe(runnerExit.done);
    expect(concierge.end?.reason).toBe("inactivity");
    const delivered = concierge.bytes("stdout");
    expect(delivered.length).toBeGreaterThan(mebibyte);
    expect(delivered.every((byte) => byte === 0)).toBe(true);
    expect(concierge.faults).toEqual([]);
  });

  test("a batch whose answer was lost is sent again with the same bytes", async () => {
    await using concierge = await FakeConcierge.start();
    concierge.behave = (post, nth) => (nth === 1 ? "lose" : accept(post));
    await using turn = new Turn(bundle, concierge, "echo once; sleep 0.2; echo more");
    expect(await turn.launch().exited).toBe(runnerExit.done);
    const [first, second] = concierge.of("output");
    expect(second?.body).toBe(first?.body);
    expect(concierge.faults).toEqual([]);
    expect(concierge.text("stdout")).toBe("once\nmore\n");
  });

  test.each([
    ["breaks the connection", "drop"],
    ["does not answer", "hang"],
    ["answers 500", { status: 500 }],
    ["is not ready for the turn", { action: "wait" }],
  ] as const)("because it %s, every post is retried unchanged", async (_, behaviour) => {
    await using concierge = await FakeConcierge.start();
    const tries = new Map<string, number>();
    concierge.behave = (post) => {
      const nth = (tries.get(post.body) ?? 0) + 1;
      tries.set(post.body, nth);
      return nth <= 2 ? behaviour : accept(post);
    };
    await using turn = new Turn(bundle, concierge, "echo hello", { timings: { requestTimeoutMs: 500 } });
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect([...tries.values()]).toEqual([3, 3]);
    expect(concierge.posts.map((post) => post.kind)).toEqual([
      "output",
      "output",
      "output",
      "end",
      "end",
      "end",
    ]);
    expect(concierge.text("stdout")).toBe("hello\n");
  });

  test("a retry respects Retry-After", async () => {
    await using concierge = await FakeConcierge.start();
    concierge.behave = (post, nth) =>
      nth === 1 ? { status: 429, headers: { "retry-after": "1" } } : accept(post);
    await using turn = new Turn(bundle, concierge, "echo hello");
    await turn.launch().exited;
    const [first, second] = concierge.posts;
    expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBeGreaterThanOrEqual(990);
  });

  test("the runner kills the agent and gives up some time after the deadline", async () => {
    await using concierge = await FakeConcierge.start();
    await concierge.down();
    const limits = { maxDurationMs: 600, timings: { giveUpMs: 400 } };
    await using turn = new Turn(bundle, concierge, "echo hello; exec sleep 300", limits);
    expect(await turn.launch().exited).toBe(runnerExit.gaveUp);
    expect(turn.processes()).toEqual([]);
  });
});

describe("a secret", () => {
  test("is masked in output and text, even if it arrives in two parts", async () => {
    await using concierge = await FakeConcierge.start();
    const script = [
      'echo "all: $KEY"',
      'printf "%s" "half: $(printf %s "$KEY" | head -c 9)"',
      "until [ -e go ]; do sleep 0.02; done",
      'printf "%s\\n" "$(printf %s "$KEY" | tail -c +10)"',
      'echo "$KEY" >&2',
    ].join("\n");
    await using turn = new Turn(bundle, concierge, script, { env: { KEY: "s3cr3t-value-42" } });
    const { exited } = turn.launch();
    await until("the first part was read", () => concierge.text("stdout").endsWith("half: "));
    turn.touch("go");
    await exited;
    expect(concierge.text("stdout")).toBe("all: ***\nhalf: ***\n");
    expect(concierge.text("stderr")).toBe("***\n");
    expect(concierge.end?.text).toBe("all: ***\nhalf: ***\n");
  });
});
