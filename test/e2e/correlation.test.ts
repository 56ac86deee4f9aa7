import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Concierge, startConcierge } from "../testing/stack.ts";

let concierge: Concierge;
beforeAll(async () => {
  concierge = await startConcierge();
});
afterAll(async () => await concierge[Symbol.asyncDispose]());

interface Line {
  by: string;
  requestId?: string;
  [field: string]: unknown;
}

/** The functions' JSON log lines, with the name of the function. */
function lines(): Line[] {
  return concierge.log.flatMap((text) => {
    const [, by = "", json = ""] = /^\[(\w+)#\d+\] (\{.*\})$/.exec(text) ?? [];
    return json === "" ? [] : [{ ...JSON.parse(json), by }];
  });
}

async function start(requestId: string): Promise<{ id: string; answered: string | null }> {
  const response = await fetch(new URL("/v1/tasks", concierge.url), {
    method: "POST",
    headers: {
      authorization: `Bearer ${concierge.apiKey}`,
      "content-type": "application/json",
      "x-request-id": requestId,
    },
    body: JSON.stringify({
      // The runner is frozen, so the timer has to enforce the deadline.
      prompt: "echo started; sleep 0.5; kill -STOP $PPID; sleep 1000",
      sessionKey: randomUUID(),
      limits: { maxDurationMs: 6000, inactivityMs: 60_000 },
    }),
  });
  const { id } = (await response.json()) as { id: string };
  return { id, answered: response.headers.get("x-request-id") };
}

it("one request id is in the lines of api, worker, runner posts and timer", async () => {
  const requestId = `abc-${randomUUID()}`;
  const { id, answered } = await start(requestId);
  expect(answered).toBe(requestId);
  const { status } = await concierge.client.ended(id, 30_000);
  expect(status).toBe("timed_out");

  const mine = () => lines().filter((line) => line.requestId === requestId);
  const at = (line: Line) => `${line.by} ${line.path ?? line.work ?? line.timer}`;
  await expect
    .poll(() => [...new Set(mine().map(at))], { timeout: 20_000 })
    .toEqual(
      expect.arrayContaining([
        "Api /v1/tasks",
        "Worker provision",
        "Worker environment",
        "ApiRunner /v1/runner/output",
        "Timer deadline",
      ]),
    );
  // And with the task's id, which another request's line would not have.
  expect(new Set(mine().flatMap(({ taskId = [] }) => taskId))).toEqual(new Set([id]));
  expect(mine().filter(({ path }) => path === "/v1/runner/output")).toContainEqual(
    expect.objectContaining({ taskId: id, turn: "1", status: "200" }),
  );
}, 60_000);

it("another request has another id", async () => {
  const first = `abc-${randomUUID()}`;
  const { id } = await start(first);
  const response = await fetch(new URL(`/v1/tasks/${id}/stop`, concierge.url), {
    method: "POST",
    headers: { authorization: `Bearer ${concierge.apiKey}` },
  });
  const second = response.headers.get("x-request-id");
  expect(second).not.toBe(first);
  const stops = lines().filter(({ path }) => path === `/v1/tasks/${id}/stop`);
  expect(stops.length).toBeGreaterThan(0);
  expect(new Set(stops.map(({ requestId }) => requestId))).toEqual(new Set([second]));
});
