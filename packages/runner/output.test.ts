import { expect, test } from "vitest";
import { createOutput, type Output, type OutputOptions } from "./output.ts";
import { MAX_BATCH_BYTES, MAX_BATCH_CHUNKS, type OutputPost } from "./protocol.ts";
import { createSpool } from "./spool.ts";

const SECRET = "s3cr3t-value-42";

function setUp(change: Partial<OutputOptions> = {}) {
  const clock = { nowMs: 0 };
  const output = createOutput({
    secrets: [SECRET],
    maxOutputBytes: 1 << 30,
    timings: { batchMs: 250 },
    spool: createSpool("/nowhere/spool", 1 << 30),
    now: () => clock.nowMs,
    ...change,
  });
  return { clock, output };
}

function parse(head: Buffer | undefined): { seq: number; texts: string[] } | undefined {
  if (head === undefined) return undefined;
  const { seq, chunks } = JSON.parse(head.toString()) as OutputPost;
  const texts = chunks.map((chunk) =>
    "agent" in chunk
      ? `agent:${JSON.stringify(chunk.agent)}`
      : `${chunk.stream}:${Buffer.from(chunk.data, "base64")}`,
  );
  return { seq, texts };
}

function next(output: Output): { seq: number; texts: string[] } | undefined {
  const post = parse(output.head());
  output.acknowledge();
  return post;
}

/** With its first batch sent. */
function setUpLater() {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.from("first\n"));
  next(output);
  clock.nowMs = 1_000;
  output.head();
  return { clock, output };
}

test("the turn's first batch goes at once, those after it when their time is over", () => {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.from("one"));
  expect(output.dueInMs()).toBe(0);
  expect(next(output)).toEqual({ seq: 1, texts: ["stdout:one"] });
  output.write("stdout", Buffer.from("two"));
  clock.nowMs = 249;
  expect([output.dueInMs(), output.head()]).toEqual([1, undefined]);
  output.write("stderr", Buffer.from("three"));
  clock.nowMs = 250;
  expect(next(output)).toEqual({ seq: 2, texts: ["stdout:two", "stderr:three"] });
  expect(output.dueInMs()).toBe(Number.POSITIVE_INFINITY);
});

test("a batch is the same bytes until it is acknowledged", () => {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.from("one"));
  const first = output.head();
  output.write("stdout", Buffer.from("two"));
  clock.nowMs = 1_000;
  expect(output.head()).toEqual(first);
  expect(next(output)).toEqual({ seq: 1, texts: ["stdout:one"] });
  expect(next(output)).toEqual({ seq: 2, texts: ["stdout:two"] });
});

test("no batch is ever larger than Concierge takes, whatever is written and said, and held back", () => {
  const longSecret = "k".repeat(120 * 1024);
  const { output } = setUp({ secrets: [SECRET, longSecret] });
  const event = { kind: "text", text: "\u2028é".repeat(1_600) } as const;
  for (let n = 0; n < 30; n++) {
    output.write("stdout", Buffer.alloc(50_000 + 7_001 * n, "é"));
    output.write("stderr", Buffer.from(longSecret.slice(0, 4_111 * n)));
    output.say(event);
    output.write("stderr", Buffer.from("no secret after all"));
  }
  for (let n = 0; n < 3_000; n++) output.write(n % 2 === 0 ? "stdout" : "stderr", Buffer.from("x"));
  output.end();
  for (let head = output.head(); head !== undefined; head = output.head()) {
    const { chunks } = JSON.parse(head.toString()) as OutputPost;
    const sizes = chunks.map((chunk) =>
      "agent" in chunk
        ? Buffer.byteLength(JSON.stringify(chunk.agent))
        : Buffer.from(chunk.data, "base64").length,
    );
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(MAX_BATCH_BYTES);
    expect(chunks.length).toBeLessThanOrEqual(MAX_BATCH_CHUNKS);
    output.acknowledge();
  }
});

test("while a post is on its way the next batch grows to its bound and no further", () => {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.alloc(64 * 1024, "a"));
  expect(output.head()).toBeDefined();
  for (let n = 0; n < 9; n++) output.write("stdout", Buffer.alloc(32 * 1024, "b"));
  clock.nowMs = 10_000;
  output.end();
  const sizes: number[] = [];
  for (let post = next(output); post !== undefined; post = next(output)) {
    sizes.push(post.texts.join("").length - "stdout:".length);
  }
  expect(sizes).toEqual([64 * 1024, MAX_BATCH_BYTES, MAX_BATCH_BYTES]);
});

test("a character that two reads share is in one chunk, even with the other stream in between", () => {
  const { output } = setUp();
  const fox = Buffer.from("🦊");
  output.write("stdout", fox.subarray(0, 2));
  output.write("stderr", Buffer.from("!"));
  output.write("stdout", fox.subarray(2));
  output.end();
  expect(next(output)?.texts).toEqual(["stderr:!", "stdout:🦊"]);
});

test("half a character at the end of the stream is not lost", () => {
  const { output } = setUp();
  output.write("stdout", Buffer.from([0x61, 0xe2, 0x82]));
  output.end();
  const { chunks } = JSON.parse(String(output.head())) as OutputPost;
  expect(chunks).toMatchObject([{ data: Buffer.from([0x61, 0xe2, 0x82]).toString("base64") }]);
});

test("the beginning of what may be a secret waits no longer than the batch does", () => {
  const { clock, output } = setUpLater();
  output.write("stdout", Buffer.from("s3c"));
  expect(output.dueInMs()).toBe(250);
  clock.nowMs += 250;
  expect(next(output)?.texts).toEqual(["stdout:s3c"]);
});

test("the beginning of what may be a secret does not go with the first batch", () => {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.from("key s3c"));
  expect(next(output)?.texts).toEqual(["stdout:key "]);
  output.write("stdout", Buffer.from("r3t-value-42 s3c"));
  clock.nowMs = 250;
  expect(next(output)?.texts).toEqual(["stdout:*** s3c"]);
});

test("what the first batch has left behind goes when its own time is over, though nothing more is written", () => {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.from("key s3c"));
  next(output);
  expect(output.dueInMs()).toBe(250);
  clock.nowMs = 250;
  expect(next(output)?.texts).toEqual(["stdout:s3c"]);
});

test("a secret that two reads share is masked, in the output and in the text", () => {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.from("key s3cr3t-"));
  clock.nowMs = 500;
  expect(next(output)?.texts).toEqual(["stdout:key "]);
  output.write("stdout", Buffer.from("value-42\n"));
  output.end();
  expect(next(output)?.texts).toEqual(["stdout:***\n"]);
  expect(output.text()).toBe("key ***\n");
});

test("the text of what has no answer is the end of stdout, without what is meant for a terminal", () => {
  const { output } = setUp();
  output.write("stdout", Buffer.from("\u001b[32mgreen\u001b[0m\n"));
  output.end();
  expect([next(output)?.texts, output.text()]).toEqual([["stdout:\u001b[32mgreen\u001b[0m\n"], "green\n"]);
});

test("the text of an agent's is its answer, else what it said last, masked", () => {
  const { output } = setUp();
  output.write("stdout", Buffer.from("{}\n"));
  output.say({ kind: "text", text: `the key is ${SECRET}` });
  output.say({ kind: "tool_result", ok: true, text: "of no matter" });
  expect(output.text()).toBe("the key is ***");
  output.say({ kind: "result", ok: true, text: "done" });
  expect(output.text()).toBe("done");
});

test("what an agent said goes with the batch of what it was read from, and opens one where there is none", () => {
  const { clock, output } = setUpLater();
  output.say({ kind: "text", text: "hello" });
  expect(output.dueInMs()).toBe(250);
  clock.nowMs += 250;
  expect(next(output)?.texts).toEqual(['agent:{"kind":"text","text":"hello"}']);
});

test("beyond its cap output is dropped and counted, and half a secret at the cut goes with it", () => {
  const { output } = setUp({ maxOutputBytes: 12 });
  output.write("stdout", Buffer.from("four"));
  output.write("stderr", Buffer.from("s3cr3t-value-42 and more"));
  output.write("stdout", Buffer.from("more"));
  output.end();
  expect(next(output)?.texts).toEqual(["stdout:four"]);
  expect(output.progress().outputCutBytes).toBe(8 + 16 + 4);
});

test("progress tells what is formed and what is acknowledged", () => {
  const { output } = setUp();
  expect(output.progress()).toEqual({ producedSeq: 0, ackedSeq: 0, lastOutputAt: null, outputCutBytes: 0 });
  output.write("stdout", Buffer.from("x"));
  output.head();
  expect(output.progress()).toMatchObject({ producedSeq: 1, ackedSeq: 0, lastOutputAt: expect.any(String) });
  output.acknowledge();
  expect(output.progress()).toMatchObject({ producedSeq: 1, ackedSeq: 1 });
});
