import { APIError } from "@vercel/sandbox";
import { afterEach, expect, it, vi } from "vitest";
import { inContext, learn } from "../context.ts";
import { log } from "./log.ts";
import { neverShow, neverShowSecretsOf } from "./mask.ts";

const canary = "canary-5e1f-do-not-show";

afterEach(() => {
  vi.restoreAllMocks();
});

/** The lines that `work` prints. */
function printed(work: () => void): string[] {
  const lines: string[] = [];
  vi.spyOn(process.stdout, "write").mockImplementation((text) => lines.push(String(text)) > 0);
  work();
  vi.restoreAllMocks();
  return lines;
}

it("a line is one JSON object with level, message, function and context", async () => {
  vi.stubEnv("AWS_LAMBDA_FUNCTION_NAME", "concierge-test-Worker");
  const lines = await inContext({ requestId: "request-1" }, async () => {
    learn({ taskId: "task_1", turn: 2 });
    return printed(() => log.info("two\nlines", { count: 3 }));
  });
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/^[^\n]+\n$/);
  expect(JSON.parse(lines[0] ?? "")).toEqual({
    level: "info",
    message: "two\nlines",
    time: expect.stringMatching(/^\d{4}-.*Z$/),
    function: "concierge-test-Worker",
    requestId: "request-1",
    taskId: "task_1",
    turn: 2,
    count: 3,
  });
});

it("concurrent work has separate contexts", async () => {
  const ids = await Promise.all(
    ["a", "b", "c"].map((requestId) =>
      inContext({ requestId }, async () => {
        await Promise.resolve();
        learn({ own: requestId });
        await new Promise((next) => setImmediate(next));
        const [line = ""] = printed(() => log.info("done"));
        const { requestId: id, own } = JSON.parse(line);
        return `${id} ${own}`;
      }),
    ),
  );
  expect(ids).toEqual(["a a", "b b", "c c"]);
});

/** Errors as SDKs throw them, with request, response and causes. */
const errors: Record<string, unknown> = {
  "an error of Vercel's SDK as a cause": Object.assign(new Error("The provider could not probe"), {
    kind: "transient",
    cause: new APIError(new Response(canary, { status: 500, headers: { "x-secret": canary } }), {
      text: `{"token":"${canary}"}`,
      json: { token: canary },
    } as ConstructorParameters<typeof APIError>[1]),
  }),
  "an error of AWS's SDK": Object.assign(new Error("throttled"), {
    $metadata: { httpStatusCode: 400, requestId: "aws-1", cfId: canary },
    $response: { headers: { authorization: canary }, body: canary },
    config: { headers: { authorization: `Bearer ${canary}` } },
  }),
  "an error that quotes a header": new TypeError(
    `Headers.append: "Bearer ${canary}" is an invalid header value.`,
  ),
  "an error that quotes a URL with a credential": new Error(`GET https://u:${canary}@host/x failed`),
  "an aggregate error": new AggregateError(
    [Object.assign(new Error("one"), { request: { headers: { authorization: canary } } })],
    "all failed",
  ),
  "an object that is not an error": { headers: { authorization: canary } },
  "an error whose stack repeats its message": Object.assign(new Error("short"), {
    stack: `Error: ${canary}\n    at here (file.ts:1:1)`,
  }),
};

it.each(Object.keys(errors))("%s is logged without its secrets", (name) => {
  const [line = ""] = printed(() => log.error("failed", errors[name]));
  expect(line).not.toContain(canary);
  expect(JSON.parse(line)).toMatchObject({ level: "error", message: "failed", error: expect.any(Object) });
});

it("an error is logged with name, message, codes, stack and cause", () => {
  const [line = ""] = printed(() => log.error("failed", errors["an error of Vercel's SDK as a cause"]));
  const { error } = JSON.parse(line);
  expect(error).toMatchObject({ message: "The provider could not probe", kind: "transient" });
  expect(error.stack[0]).toMatch(/^at .*log\.test\.ts/);
  expect(error.cause).toMatchObject({ status: 500 });
  const [aws = ""] = printed(() => log.error("failed", errors["an error of AWS's SDK"]));
  expect(JSON.parse(aws).error).toMatchObject({ status: 400, awsRequestId: "aws-1" });
});

it("registered secrets are masked in every field, plain and JSON-escaped", () => {
  const secret = 'secret-"quoted"-9d2c';
  neverShow(secret, "short");
  neverShowSecretsOf({ ANTHROPIC_API_KEY: "canary-agent-key-1", PATH: "/usr/bin:/bin" });
  const [line = ""] = printed(() =>
    log.info(`it is ${secret}`, { deep: [{ secret }], key: "canary-agent-key-1", path: "/usr/bin:/bin" }),
  );
  expect(line).not.toContain("9d2c");
  expect(line).not.toContain("canary-agent-key-1");
  expect(JSON.parse(line)).toMatchObject({ message: "it is ***", path: "/usr/bin:/bin" });
});
