import { limits } from "@concierge/core";
import { batchMaxBytes, batchMaxChunks, turnHeader, turnMark } from "@concierge/protocol";
import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver } from "../../../test/testing/driver.ts";

let driver: Driver;
beforeEach(() => {
  driver = createDriver();
});

const at = "2026-11-01T12:00:00.000Z";
const bytes = (size: number) => ({
  stream: "stdout",
  at,
  data: Buffer.alloc(size, "x").toString("base64"),
});
const events = (size: number) => {
  const event = { kind: "text", text: "" };
  const empty = JSON.stringify(event).length;
  return { at, agent: { ...event, text: "x".repeat(size - empty) } };
};

describe("an answer to a runner", () => {
  it("names the turn, also on refusals, so that the runner can trust it", async () => {
    const { id, token } = await driver.running();
    const mark = turnMark({ taskId: id, turn: 1 });
    const answers = [
      [await driver.say(token, "beat", { activity: "none" }), 200],
      [await driver.say(token, "beat", { activity: "asleep" }), 400],
      [await driver.say(token, "output", "{"), 400],
      [await driver.say(token, "nowhere", {}), 404],
      [await driver.api.request("GET", "/v1/runner/beat", { key: token }), 405],
      [await driver.say(token, "output", { data: "x".repeat(1024 * 1024) }), 413],
      [
        await driver.api.request("POST", "/v1/runner/beat", {
          key: token,
          body: "x",
          headers: { "content-type": "text/plain" },
        }),
        415,
      ],
    ] as const;
    for (const [{ status, headers, json }, expected] of answers) {
      expect([status, headers.get(turnHeader)]).toEqual([expected, mark]);
      if (status !== 200) expect(json.code).toEqual(expect.any(String));
    }
    driver.api.advance(24 * 60 * 60_000);
    const expired = await driver.say(token, "beat", { activity: "none" });
    expect([expired.status, expired.json.code]).toEqual([401, "unauthorized"]);
    expect(expired.headers.get(turnHeader)).toBe(mark);
  });

  it("names no turn for a token that we did not issue, so that another Concierge cannot stop the agent", async () => {
    const { token } = await driver.running();
    for (const unknown of [`${token.slice(0, -4)}AAAA`, "nonsense"]) {
      const { status, headers } = await driver.say(unknown, "beat", { activity: "none" });
      expect([status, headers.get(turnHeader)]).toEqual([401, null]);
    }
  });
});

describe("a batch", () => {
  const send = (token: string, seq: number, chunks: unknown[]) =>
    driver.say(token, "output", { seq, chunks });

  it("has the same limits here and in the protocol", () => {
    expect([limits.batchMaxBytes, limits.batchMaxChunks]).toEqual([batchMaxBytes, batchMaxChunks]);
  });

  it.each<[string, (more: number) => unknown[]]>([
    ["of output", (more) => [bytes(batchMaxBytes + more)]],
    ["of many chunks", (more) => [...Array(500).fill(bytes(100)), bytes(batchMaxBytes - 50_000 + more)]],
    [
      "of output and agent events",
      (more) => [events(60_000), bytes(batchMaxBytes - 120_000 + more), events(60_000)],
    ],
  ])("%s is accepted up to the limit and refused with one byte more", async (_what, chunks) => {
    const { id, token } = await driver.running();
    const refused = await send(token, 1, chunks(1));
    expect([refused.status, refused.json.code]).toEqual([400, "invalid_request"]);
    const taken = await send(token, 1, chunks(0));
    expect([taken.status, taken.json]).toEqual([200, { action: "continue" }]);
    expect((await driver.api.request("GET", `/v1/tasks/${id}/output`)).text.length).toBeGreaterThan(0);
  });

  it("is refused with one chunk over the limit", async () => {
    const { token } = await driver.running();
    expect((await send(token, 1, Array(batchMaxChunks + 1).fill(bytes(1)))).status).toBe(400);
    expect((await send(token, 1, Array(batchMaxChunks).fill(bytes(1)))).status).toBe(200);
  });
});
