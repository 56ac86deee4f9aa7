import { batchMaxBytes, batchMaxChunks, type OutputPost } from "@concierge/protocol";
import { expect, test } from "vitest";
import { createOutput, type Output, type OutputOptions } from "./output.ts";
import { createSpool } from "./spool.ts";

const secret = "s3cr3t-value-42";

function setUp(change: Partial<OutputOptions> = {}) {
  const clock = { nowMs: 0 };
  const output = createOutput({
    secrets: [secret],
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

/** An output whose first batch was sent. */
function setUpLater() {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.from("first\n"));
  next(output);
  clock.nowMs = 1_000;
  output.head();
  return { clock, output };
}

test("the first batch is sent at once, later ones when their time is up", () => {
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

test("a batch keeps its bytes until it is acknowledged", () => {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.from("one"));
  const first = output.head();
  output.write("stdout", Buffer.from("two"));
  clock.nowMs = 1_000;
  expect(output.head()).toEqual(first);
  expect(next(output)).toEqual({ seq: 1, texts: ["stdout:one"] });
  expect(next(output)).toEqual({ seq: 2, texts: ["stdout:two"] });
});

test("no batch exceeds the protocol's limits, even with held bytes and events", () => {
  const longSecret = "k".repeat(120 * 1024);
  const { output } = setUp({ secrets: [secret, longSecret] });
  const event = { kind: "text", text: "\u2028é".repeat(1_600) } as const;
  for (let n = 0; n < 30; n++) {
    output.write("stdout", Buffer.alloc(50_000 + 7_001 * n, "é"));
    output.write("stderr", Buffer.from(longSecret.slice(0, 4_111 * n)));
    output.addEvent(event);
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
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(batchMaxBytes);
    expect(chunks.length).toBeLessThanOrEqual(batchMaxChunks);
    output.acknowledge();
  }
});

test("while a post is in flight, the next batch grows up to the limit", () => {
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
  expect(sizes).toEqual([64 * 1024, batchMaxBytes, batchMaxBytes]);
});

test("a character split over two reads is in one chunk, even with the other stream in between", () => {
  const { output } = setUp();
  const fox = Buffer.from("🦊");
  output.write("stdout", fox.subarray(0, 2));
  output.write("stderr", Buffer.from("!"));
  output.write("stdout", fox.subarray(2));
  output.end();
  expect(next(output)?.texts).toEqual(["stderr:!", "stdout:🦊"]);
});

test("an incomplete character at the end of the stream is not lost", () => {
  const { output } = setUp();
  output.write("stdout", Buffer.from([0x61, 0xe2, 0x82]));
  output.end();
  const { chunks } = JSON.parse(String(output.head())) as OutputPost;
  expect(chunks).toMatchObject([{ data: Buffer.from([0x61, 0xe2, 0x82]).toString("base64") }]);
});

test("the possible beginning of a secret waits no longer than its batch", () => {
  const { clock, output } = setUpLater();
  output.write("stdout", Buffer.from("s3c"));
  expect(output.dueInMs()).toBe(250);
  clock.nowMs += 250;
  expect(next(output)?.texts).toEqual(["stdout:s3c"]);
});

test("the possible beginning of a secret is not sent with the first batch", () => {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.from("key s3c"));
  expect(next(output)?.texts).toEqual(["stdout:key "]);
  output.write("stdout", Buffer.from("r3t-value-42 s3c"));
  clock.nowMs = 250;
  expect(next(output)?.texts).toEqual(["stdout:*** s3c"]);
});

test("bytes held back from the first batch are sent after a batch's time, even without new output", () => {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.from("key s3c"));
  next(output);
  expect(output.dueInMs()).toBe(250);
  clock.nowMs = 250;
  expect(next(output)?.texts).toEqual(["stdout:s3c"]);
});

test("a secret split over two reads is masked in the output and in the text", () => {
  const { clock, output } = setUp();
  output.write("stdout", Buffer.from("key s3cr3t-"));
  clock.nowMs = 500;
  expect(next(output)?.texts).toEqual(["stdout:key "]);
  output.write("stdout", Buffer.from("value-42\n"));
  output.end();
  expect(next(output)?.texts).toEqual(["stdout:***\n"]);
  expect(output.text()).toBe("key ***\n");
});

test("without an answer, the text is the end of stdout without ANSI sequences", () => {
  const { output } = setUp();
  output.write("stdout", Buffer.from("\u001b[32mgreen\u001b[0m\n"));
  output.end();
  expect([next(output)?.texts, output.text()]).toEqual([["stdout:\u001b[32mgreen\u001b[0m\n"], "green\n"]);
});

test("the text is the agent's answer or else its last text, masked", () => {
  const { output } = setUp();
  output.write("stdout", Buffer.from("{}\n"));
  output.addEvent({ kind: "text", text: `the key is ${secret}` });
  output.addEvent({ kind: "tool_result", ok: true, text: "irrelevant" });
  expect(output.text()).toBe("the key is ***");
  output.addEvent({ kind: "result", ok: true, text: "done" });
  expect(output.text()).toBe("done");
});

test("an agent event joins the current batch or opens a new one", () => {
  const { clock, output } = setUpLater();
  output.addEvent({ kind: "text", text: "hello" });
  expect(output.dueInMs()).toBe(250);
  clock.nowMs += 250;
  expect(next(output)?.texts).toEqual(['agent:{"kind":"text","text":"hello"}']);
});

test("output beyond the cap is dropped and counted, together with half a secret at the cut", () => {
  const { output } = setUp({ maxOutputBytes: 12 });
  output.write("stdout", Buffer.from("four"));
  output.write("stderr", Buffer.from("s3cr3t-value-42 and more"));
  output.write("stdout", Buffer.from("more"));
  output.end();
  expect(next(output)?.texts).toEqual(["stdout:four"]);
  expect(output.progress().outputCutBytes).toBe(8 + 16 + 4);
});

test("progress counts produced and acknowledged batches", () => {
  const { output } = setUp();
  expect(output.progress()).toEqual({ producedSeq: 0, ackedSeq: 0, lastOutputAt: null, outputCutBytes: 0 });
  output.write("stdout", Buffer.from("x"));
  output.head();
  expect(output.progress()).toMatchObject({ producedSeq: 1, ackedSeq: 0, lastOutputAt: expect.any(String) });
  output.acknowledge();
  expect(output.progress()).toMatchObject({ producedSeq: 1, ackedSeq: 1 });
});
