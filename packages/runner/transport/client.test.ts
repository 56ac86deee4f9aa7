import { describe, expect, test } from "vitest";
import { backoffMs, classify, waitMs } from "./client.ts";

const mark = "task_1/2";
const reply = { body: "", retryAfter: undefined, turn: mark };
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
  ["finalize", 409, '{"code":"task_active"}', action("stop")],
  ["beat", 200, "<html>a proxy's page</html>", retry()],
  ["beat", 200, "null", retry()],
  ["output", 401, '{"code":"unauthorized"}', action("stop")],
  ["output", 403, '{"code":"unauthorized"}', action("stop")],
  ["output", 404, '{"code":"unauthorized"}', action("stop")],
  ["output", 409, '{"code":"unauthorized"}', action("stop")],
  ["output", 410, '{"code":"unauthorized"}', action("stop")],
  ["output", 408, "", retry()],
  ["output", 429, "", retry()],
  ["output", 500, "", retry()],
  ["output", 503, "", retry()],
] as const)("reads an answer to %s with status %i and body %s", (kind, status, body, expected) => {
  expect(classify(kind, { ...reply, status, body }, mark)).toEqual(expected);
});

test.each([400, 405, 413, 415])(
  "rejects the post for good if Concierge itself answers with status %i",
  (status) => {
    expect(classify("output", { ...reply, status, body: '{"code":"some_code"}' }, mark)).toEqual({
      kind: "rejected",
      detail: `Concierge refused the runner's output with status ${status} (some_code)`,
    });
  },
);

const problem = '{"code":"unauthorized"}';

describe("retries if the answer is not from Concierge", () => {
  const statuses = [200, 301, 302, 400, 401, 403, 404, 405, 409, 410, 413, 415, 418, 451];
  const cases = statuses.flatMap((status) => [
    { what: "an error without the turn", status, turn: undefined, body: problem },
    { what: "a stop without the turn", status, turn: undefined, body: '{"action":"stop"}' },
    { what: "an error with another turn", status, turn: "task_1/3", body: problem },
    { what: "a page with our turn", status, turn: mark, body: "<html>blocked</html>" },
    { what: "JSON of another shape with our turn", status, turn: mark, body: '{"error":"blocked"}' },
    { what: "an empty body with our turn", status, turn: mark, body: "" },
  ]);
  test.each(cases)("$what, with status $status", ({ status, turn, body }) => {
    expect(classify("output", { ...reply, status, turn, body }, mark)).toEqual(retry());
  });
});

test.each([
  ["2", 2_000],
  ["60", 5_000],
  ["soon", 0],
  [undefined, 0],
])("a Retry-After of %s is a pause of %i ms", (retryAfter, afterMs) => {
  expect(classify("output", { ...reply, status: 429, retryAfter }, mark)).toEqual(retry(afterMs));
});

test.each([
  [1, 0, 100],
  [1, 1, 200],
  [2, 0, 200],
  [4, 1, 1_600],
  [5, 0, 1_000],
  [5, 1, 2_000],
  [5_000, 1, 2_000],
])("after failure %i in a row with random %i, the client waits %i ms", (failures, chance, expected) => {
  expect(backoffMs(failures, () => chance)).toBe(expected);
});

test.each([
  [1, 5],
  [2, 10],
  [3, 20],
  [5, 80],
  [6, 100],
  [5_000, 100],
])("after `wait` %i in a row, the client pauses %i ms", (waits, expected) => {
  expect(waitMs(waits, 100)).toBe(expected);
});
