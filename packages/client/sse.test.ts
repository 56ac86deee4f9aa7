import { describe, expect, it } from "vitest";
import { createSseParser, type SseMessage } from "./sse.ts";

const stream =
  "retry: 500\n: connected\n\nid: 1\ndata: one\n\n: still here\n\nid:2\ndata: two\ndata: lines\n\n";
const wanted: SseMessage[] = [
  { id: "1", data: "one" },
  { id: "2", data: "two\nlines" },
];

describe("an event stream", () => {
  it.each([
    ["LF", "\n"],
    ["CRLF", "\r\n"],
    ["CR", "\r"],
  ])("with %s is read the same in pieces of any size", (_, end) => {
    const text = stream.replaceAll("\n", end);
    for (let size = 1; size <= text.length; size++) {
      const feed = createSseParser();
      const messages: SseMessage[] = [];
      for (let at = 0; at < text.length; at += size) messages.push(...feed(text.slice(at, at + size)));
      expect(messages, `pieces of ${size}`).toEqual(wanted);
    }
  });

  it("drops a message that was cut", () => {
    expect(createSseParser()("id: 1\ndata: one\n\nid: 2\ndata: tw")).toEqual([{ id: "1", data: "one" }]);
  });

  it("keeps the last id for a message without one", () => {
    expect(createSseParser()("id: 1\ndata: a\n\ndata: b\n\n").map(({ id }) => id)).toEqual(["1", "1"]);
  });

  it("ignores fields that it does not know and colons in the data", () => {
    expect(createSseParser()("event: x\nfoo\ndata: a: b\n\n")).toEqual([{ id: "", data: "a: b" }]);
  });
});
