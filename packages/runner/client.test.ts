import { expect, test } from "vitest";
import { backoffMs, classify, waitMs } from "./client.ts";

const reply = { body: "", retryAfter: undefined, keepsConnection: true };
const retry = (afterMs = 0) => ({ kind: "retry", afterMs });
const action = (name: string) => ({ kind: "action", action: name });
const granted = (credential: unknown) => ({ kind: "granted", credential });

test.each([
  ["output", 200, '{"action":"continue"}', action("continue")],
  ["output", 200, '{"action":"stop"}', action("stop")],
  ["output", 200, '{"action":"wait"}', action("wait")],
  ["output", 200, '{"action":"done"}', retry()],
  ["end", 200, '{"action":"done"}', action("done")],
  ["end", 200, '{"action":"continue"}', retry()],
  ["clone", 200, '{"action":"go","credential":null}', granted(null)],
  [
    "finalize",
    200,
    '{"action":"go","credential":{"username":"u","token":"t","more":1}}',
    granted({ username: "u", token: "t" }),
  ],
  ["finalize", 200, '{"action":"stop"}', action("stop")],
  ["clone", 200, '{"action":"wait"}', action("wait")],
  ["finalize", 200, '{"action":"go"}', retry()],
  ["finalize", 200, '{"action":"go","credential":"t"}', retry()],
  ["finalize", 200, '{"action":"go","credential":{"username":"u"}}', retry()],
  ["finalize", 200, '{"action":"continue"}', retry()],
  ["end", 200, '{"action":"go","credential":null}', retry()],
  ["finalize", 409, "", action("stop")],
  ["beat", 200, "<html>a proxy's page</html>", retry()],
  ["beat", 200, "null", retry()],
  ["output", 401, "", action("stop")],
  ["output", 403, "", action("stop")],
  ["output", 404, "", action("stop")],
  ["output", 409, "", action("stop")],
  ["output", 410, "", action("stop")],
  ["output", 408, "", retry()],
  ["output", 429, "", retry()],
  ["output", 500, "", retry()],
  ["output", 503, "", retry()],
] as const)("an answer to %s of status %i and body %s is understood", (kind, status, body, expected) => {
  expect(classify(kind, { ...reply, status, body })).toEqual(expected);
});

test.each([400, 413, 302])("status %i is a disagreement that no retry cures", (status) => {
  expect(classify("output", { ...reply, status })).toEqual({
    kind: "rejected",
    detail: `Concierge refused the runner's output with status ${status}`,
  });
});

test.each([
  ["2", 2_000],
  ["60", 5_000],
  ["soon", 0],
  [undefined, 0],
])("Retry-After %s is a pause of %i ms", (retryAfter, afterMs) => {
  expect(classify("output", { ...reply, status: 429, retryAfter })).toEqual(retry(afterMs));
});

test.each([
  [1, 0, 100],
  [1, 1, 200],
  [2, 0, 200],
  [4, 1, 1_600],
  [5, 0, 1_000],
  [5, 1, 2_000],
  [5_000, 1, 2_000],
])("after failure %i in a row, with chance %i, it waits %i ms", (failures, chance, expected) => {
  expect(backoffMs(failures, () => chance)).toBe(expected);
});

test.each([
  [1, 5],
  [2, 10],
  [3, 20],
  [5, 80],
  [6, 100],
  [5_000, 100],
])("after `wait` %i in a row it pauses %i ms", (waits, expected) => {
  expect(waitMs(waits, 100)).toBe(expected);
});
