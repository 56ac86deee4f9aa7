import { limits } from "@concierge/core";
import { MAX_BATCH_BYTES, MAX_BATCH_CHUNKS, turnHeader, turnMark } from "@concierge/runner";
import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver } from "./testing-driver.ts";

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
  it("names the turn, whatever it says, so that the runner knows whose word it is", async () => {
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

  it("names no turn where the token is not one of ours: another Concierge cannot stop its agent", async () => {
    const { token } = await driver.running();
    for (const stranger of [`${token.slice(0, -4)}AAAA`, "nonsense"]) {
      const { status, headers } = await driver.say(stranger, "beat", { activity: "none" });
      expect([status, headers.get(turnHeader)]).toEqual([401, null]);
    }
  });
});

describe("a batch", () => {
  const send = (token: string, seq: number, chunks: unknown[]) =>
    driver.say(token, "output", { seq, chunks });

  it("has the same bounds here and in the runner", () => {
    expect([limits.batchMaxBytes, limits.batchMaxChunks]).toEqual([MAX_BATCH_BYTES, MAX_BATCH_CHUNKS]);
  });

  it.each<[string, (more: number) => unknown[]]>([
    ["of output", (more) => [bytes(MAX_BATCH_BYTES + more)]],
    ["of many chunks", (more) => [...Array(500).fill(bytes(100)), bytes(MAX_BATCH_BYTES - 50_000 + more)]],
    [
      "of output and of what the agent said",
      (more) => [events(60_000), bytes(MAX_BATCH_BYTES - 120_000 + more), events(60_000)],
    ],
  ])("%s is taken up to its bound, and refused with one byte more", async (_what, chunks) => {
    const { id, token } = await driver.running();
    const refused = await send(token, 1, chunks(1));
    expect([refused.status, refused.json.code]).toEqual([400, "invalid_request"]);
    const taken = await send(token, 1, chunks(0));
    expect([taken.status, taken.json]).toEqual([200, { action: "continue" }]);
    expect((await driver.api.request("GET", `/v1/tasks/${id}/output`)).text.length).toBeGreaterThan(0);
  });

  it("has no more chunks than its bound", async () => {
    const { token } = await driver.running();
    expect((await send(token, 1, Array(MAX_BATCH_CHUNKS + 1).fill(bytes(1)))).status).toBe(400);
    expect((await send(token, 1, Array(MAX_BATCH_CHUNKS).fill(bytes(1)))).status).toBe(200);
  });
});
