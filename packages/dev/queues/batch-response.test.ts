import { expect, test } from "vitest";
import { failedMessages } from "./batch-response.ts";

const ids = ["one", "two"];
const failures = (...identifiers: unknown[]) => ({
  batchItemFailures: identifiers.map((itemIdentifier) => ({ itemIdentifier })),
});

test.each([
  ["nothing", undefined],
  ["null", null],
  ["an empty object", {}],
  ["a list that is null", { batchItemFailures: null }],
  ["an empty list", failures()],
])("%s is success", (_name, result) => {
  expect(failedMessages(result, ids)).toEqual([]);
});

test("only the listed messages have failed", () => {
  expect(failedMessages(failures("two"), ids)).toEqual(["two"]);
});

test.each([
  ["a text", "two"],
  ["a list", ["two"]],
  ["a list that is a text", { batchItemFailures: "two" }],
  ["an empty identifier", failures("one", "")],
  ["an identifier that is null", failures(null)],
  ["an identifier of no message", failures("three")],
  ["an identifier by another name", { batchItemFailures: [{ messageId: "one" }] }],
  ["a failure that is null", { batchItemFailures: [null] }],
])("%s fails the whole batch", (_name, result) => {
  expect(failedMessages(result, ids)).toEqual(ids);
});
