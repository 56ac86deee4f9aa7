import { limits } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver } from "../../../test/testing/driver.ts";

let api: Driver["api"];
let { get, post, running, end, start } = createDriver();
beforeEach(() => {
  ({ api, get, post, running, end, start } = createDriver());
});

const webhook = { url: "https://hooks.example/concierge" };
const failing = (kind: "failed" | "refused") => {
  api.webhooks.send = async (message) => {
    api.told.push(message);
    return { kind, detail: "the receiver answered 500" };
  };
};

describe("a webhook", () => {
  it("is sent once per turn, with a stable id and signed with the user's secret", async () => {
    const { id, token } = await running({ webhook, metadata: { ticket: "7" } });
    await end(token, { text: "done" });
    await api.work();
    await post(`/v1/tasks/${id}/continue`, { prompt: "more" });
    await api.work();
    await post(`/v1/tasks/${id}/stop`);
    await api.work();
    expect(api.told.map((message) => [message.url, message.id])).toEqual([
      [webhook.url, `${id}-1`],
      [webhook.url, `${id}-2`],
    ]);
    expect(JSON.parse(api.told[0]?.body ?? "")).toMatchObject({
      type: "task.succeeded",
      data: { taskId: id, turn: 1, status: "succeeded", result: { text: "done" }, metadata: { ticket: "7" } },
    });
    expect(JSON.parse(api.told[1]?.body ?? "")).toMatchObject({ type: "task.stopped", data: { turn: 2 } });
    const { json } = await api.request("GET", "/v1/webhooks/secret");
    expect(json.secret).toMatch(/^whsec_/);
    expect(api.told.every(({ secret }) => secret === json.secret)).toBe(true);
  });

  it("is sent for every kind of end", async () => {
    const { token } = await running({ webhook, sessionKey: "a" });
    await end(token, { exitCode: 3 });
    await api.work();
    await start({ webhook, sessionKey: "b", limits: { maxDurationMs: 1000 } });
    await api.work();
    api.advance(2000);
    await api.fire("deadline");
    await api.work();
    expect(api.told.map(({ body }) => JSON.parse(body).type)).toEqual(["task.failed", "task.timed_out"]);
  });

  it("is retried with growing pauses, then becomes a dead letter with one notice", async () => {
    failing("failed");
    const { id, token } = await running({ webhook });
    await end(token);
    const delays: (number | undefined)[] = [];
    const { send } = api.deps.work;
    api.deps.work.send = async (message, delayMs) => {
      if (message.kind === "webhook" && delayMs !== undefined) delays.push(delayMs);
      await send(message, delayMs);
    };
    for (let i = 0; i < limits.webhookRetryMs.length; i++) await api.work();
    expect(delays).toEqual(limits.webhookRetryMs);
    const last = [...api.sent];
    await expect(api.work()).rejects.toThrow("webhook of");
    api.sent.push(...last);
    await expect(api.work()).rejects.toThrow("webhook of");
    expect((await get(id)).notices).toEqual([
      { code: "webhook_failed", detail: expect.stringContaining("500"), turn: 1 },
    ]);
    expect(new Set(api.told.map((message) => message.id)).size).toBe(1);
  });

  it("is not retried if it is forbidden", async () => {
    failing("refused");
    const { id, token } = await running({ webhook });
    await end(token);
    await api.work();
    expect(api.sent).toEqual([]);
    expect(api.told).toHaveLength(1);
    expect((await get(id)).notices).toMatchObject([{ code: "webhook_failed" }]);
  });

  it("has a separate secret per user", async () => {
    const mine = (await api.request("GET", "/v1/webhooks/secret")).json.secret;
    const key = await api.keyFor("bob");
    expect((await api.request("GET", "/v1/webhooks/secret", { key })).json.secret).not.toBe(mine);
  });

  it.each([[{ url: "ftp://x" }], [{ url: "x" }], [{}], [{ ...webhook, more: 1 }]])(
    "is refused as %j",
    async (given) => {
      expect((await post("/v1/tasks", { prompt: "x", webhook: given })).json.code).toBe("invalid_request");
    },
  );
});
