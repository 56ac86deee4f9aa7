import { createHash, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RUNNER_EXIT } from "./index.ts";
import { accept, FakeConcierge } from "./testing/concierge.ts";
import { type Bundle, bundleRunner, NODES, peakMemoryBytes, Turn, until } from "./testing/runner.ts";

const MB = 1024 * 1024;
const PEAK_BYTES = 200 * MB;

let bundle: Bundle;

beforeAll(async () => {
  bundle = await bundleRunner();
});

afterAll(() => bundle[Symbol.dispose]());

const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

test("the bundle is one file that imports nothing, not even Node's own modules, which would take longer", () => {
  expect(bundle.imports).toEqual([]);
});

describe("what the agent prints", () => {
  test.each(NODES)("reaches Concierge with its end, on %s", async (_, node) => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "echo hello; echo oops >&2", { node });
    expect(await turn.launch().exited).toBe(RUNNER_EXIT.done);
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

  test("is sent at once the first time, however long a batch may take", async () => {
    await using concierge = await FakeConcierge.start();
    const script = "echo early; until [ -e go ]; do sleep 0.02; done; echo late";
    const timings = { batchMs: 600_000 };
    await using turn = new Turn(bundle, concierge, script, { timings });
    const { exited } = turn.launch();
    await until("the first line is there", () => concierge.text("stdout") === "early\n");
    turn.touch("go");
    expect(await exited).toBe(RUNNER_EXIT.done);
    expect(concierge.of("output").length).toBe(2);
  });

  test("arrives while the agent still runs", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(
      bundle,
      concierge,
      "echo early; until [ -e go ]; do sleep 0.02; done; echo late",
    );
    const { exited } = turn.launch();
    await until("the first line is there", () => concierge.text("stdout") === "early\n");
    turn.touch("go");
    expect(await exited).toBe(RUNNER_EXIT.done);
    expect(concierge.text("stdout")).toBe("early\nlate\n");
  });

  test("keeps the order in which the two streams spoke", async () => {
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
    const spoken = concierge.chunks().map(({ stream, bytes }) => `${stream}:${bytes}`);
    expect(spoken.join(" ")).toMatch(/^stdout:a stderr:b stdout:c ?(stdout:)?d$/);
  });

  test("can be written by way of /dev/stdout and /dev/stderr", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "echo out > /dev/stdout; echo err | tee /dev/stderr");
    await turn.launch().exited;
    expect([concierge.text("stdout"), concierge.text("stderr")]).toEqual(["out\nerr\n", "err\n"]);
  });

  test.each([
    ["random bytes", randomBytes(MB)],
    ["a line of 5 MB without an end", Buffer.alloc(5 * MB, "x")],
    ["characters of several bytes", Buffer.from("aé€🦊".repeat(100_000))],
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

  test("never has a character cut in two chunks", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = new Turn(bundle, concierge, "cat data");
    writeFileSync(join(turn.workDir, "data"), "é€🦊".repeat(100_000));
    await turn.launch().exited;
    expect(concierge.chunks().length).toBeGreaterThan(1);
    const decoder = new TextDecoder("utf-8", { fatal: true });
    for (const { bytes } of concierge.chunks()) expect(() => decoder.decode(bytes)).not.toThrow();
  });

  test("is delivered by the 50 MB, exactly, with the runner's memory flat", async () => {
    await using concierge = await FakeConcierge.start();
    const bytes = randomBytes(50 * MB);
    await using turn = new Turn(bundle, concierge, "cat data");
    writeFileSync(join(turn.workDir, "data"), bytes);
    const { pid, exited } = turn.launch();
    let peakBytes = Number.NaN;
    concierge.behave = (post) => {
      if (post.kind === "end") peakBytes = peakMemoryBytes(pid);
      return accept(post);
    };
    expect(await exited).toBe(RUNNER_EXIT.done);
    expect(sha256(concierge.bytes("stdout"))).toBe(sha256(bytes));
    expect(peakBytes).toBeLessThan(PEAK_BYTES);
  });

  test("beyond the cap is dropped and counted, and the agent is not held up", async () => {
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

describe("while Concierge cannot take output", () => {
  test("the runner spools to disk, its memory stays flat, and nothing is lost, doubled or out of order", async () => {
    await using concierge = await FakeConcierge.start();
    const bytes = randomBytes(30 * MB);
    await using turn = new Turn(bundle, concierge, "cat data; echo finished > finished");
    writeFileSync(join(turn.workDir, "data"), bytes);
    await concierge.down();
    const { pid, exited } = turn.launch();
    await until("the agent has written it all", () => turn.read("finished") === "finished\n");
    await until("the state tells of undelivered output", () => (turn.state()?.producedSeq ?? 0) > 100);
    expect(turn.state()?.ackedSeq).toBe(0);
    expect(peakMemoryBytes(pid)).toBeLessThan(PEAK_BYTES);
    await concierge.up();
    expect(await exited).toBe(RUNNER_EXIT.done);
    expect(sha256(concierge.bytes("stdout"))).toBe(sha256(bytes));
    expect(concierge.faults).toEqual([]);
    expect(turn.state()).toMatchObject({ ackedSeq: concierge.batches.length });
  });

  test("a spool at its bound makes the agent wait, which is not taken for silence", async () => {
    await using concierge = await FakeConcierge.start();
    const bytes = randomBytes(20 * MB);
    const limits = { maxSpoolBytes: 2 * MB, inactivityMs: 1_000 };
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
    expect(await turn.launch().exited).toBe(RUNNER_EXIT.done);
    expect(finishedInOutage).toBe(false);
    expect(concierge.end?.reason).toBe("exited");
    expect(sha256(concierge.bytes("stdout"))).toBe(sha256(bytes));
  });

  test("an agent that waits for a spool that never empties is ended at the cap, and nothing it wrote is lost", async () => {
    await using concierge = await FakeConcierge.start();
    const limits = { maxSpoolBytes: MB, inactivityMs: 200, activityCapMs: 2_000 };
    const script = "echo $$ > pid; head -c 20000000 /dev/zero";
    await using turn = new Turn(bundle, concierge, script, limits);
    let isOut = true;
    concierge.behave = (post) => (isOut ? { status: 503 } : accept(post));
    const { exited } = turn.launch();
    await until("the agent runs", () => turn.read("pid") !== "");
    await until("it is ended", () => turn.processes().length === 0);
    isOut = false;
    expect(await exited).toBe(RUNNER_EXIT.done);
    expect(concierge.end?.reason).toBe("inactivity");
    const delivered = concierge.bytes("stdout");
    expect(delivered.length).toBeGreaterThan(MB);
    expect(delivered.every((byte) => byte === 0)).toBe(true);
    expect(concierge.faults).toEqual([]);
  });

  test("a batch whose answer was lost is sent again, the same to the byte", async () => {
    await using concierge = await FakeConcierge.start();
    concierge.behave = (post, nth) => (nth === 1 ? "lose" : accept(post));
    await using turn = new Turn(bundle, concierge, "echo once; sleep 0.2; echo more");
    expect(await turn.launch().exited).toBe(RUNNER_EXIT.done);
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
  ] as const)("because it %s, every post is tried again as it was", async (_, behaviour) => {
    await using concierge = await FakeConcierge.start();
    const tries = new Map<string, number>();
    concierge.behave = (post) => {
      const nth = (tries.get(post.body) ?? 0) + 1;
      tries.set(post.body, nth);
      return nth <= 2 ? behaviour : accept(post);
    };
    await using turn = new Turn(bundle, concierge, "echo hello", { timings: { requestTimeoutMs: 500 } });
    expect(await turn.launch().exited).toBe(RUNNER_EXIT.done);
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

  test("it is not asked again sooner than it said", async () => {
    await using concierge = await FakeConcierge.start();
    concierge.behave = (post, nth) =>
      nth === 1 ? { status: 429, headers: { "retry-after": "1" } } : accept(post);
    await using turn = new Turn(bundle, concierge, "echo hello");
    await turn.launch().exited;
    const [first, second] = concierge.posts;
    expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBeGreaterThanOrEqual(990);
  });

  test("the runner gives up some time after the deadline, with the agent dead", async () => {
    await using concierge = await FakeConcierge.start();
    await concierge.down();
    const limits = { maxDurationMs: 600, timings: { giveUpMs: 400 } };
    await using turn = new Turn(bundle, concierge, "echo hello; exec sleep 300", limits);
    expect(await turn.launch().exited).toBe(RUNNER_EXIT.gaveUp);
    expect(turn.processes()).toEqual([]);
  });
});

describe("a secret", () => {
  test("is masked in output and text, also where it arrives in two halves", async () => {
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
    await until("the first half was read", () => concierge.text("stdout").endsWith("half: "));
    turn.touch("go");
    await exited;
    expect(concierge.text("stdout")).toBe("all: ***\nhalf: ***\n");
    expect(concierge.text("stderr")).toBe("***\n");
    expect(concierge.end?.text).toBe("all: ***\nhalf: ***\n");
  });
});
