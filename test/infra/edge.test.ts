import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { firewallRules, keepAuthorization } from "../../infra/edge.ts";

/** The headers of a request after CloudFront ran the code on it. */
function after(headers: Record<string, { value: string }>): Record<string, { value: string }> {
  const event = { request: { headers }, viewer: { ip: "203.0.113.9" } };
  runInNewContext(keepAuthorization, { event });
  return event.request.headers;
}

const address = { value: "203.0.113.9" };

describe("before a request is signed", () => {
  it("the caller's authorization is kept in another header", () => {
    const authorization = { value: "Bearer key" };
    expect(after({ authorization })).toEqual({
      authorization,
      "x-forwarded-authorization": authorization,
      "x-viewer-address": address,
    });
  });

  it("a caller's own value of that header is dropped", () => {
    expect(after({ "x-forwarded-authorization": { value: "Bearer key" } })).toEqual({
      "x-viewer-address": address,
    });
  });

  it("the caller's address is passed on, and not what the caller says it is", () => {
    expect(after({ "x-viewer-address": { value: "10.0.0.1" } })).toEqual({ "x-viewer-address": address });
  });
});

interface Request {
  path: string;
  address: string;
  authorization?: string;
}

/** A firewall statement, as far as we use them. */
interface Statement {
  andStatement?: { statements: Statement[] };
  notStatement?: { statements: Statement[] };
  byteMatchStatement?: { searchString: string; textTransformations: { priority: number; type: string }[] };
  sizeConstraintStatement?: { size: number };
}

/** What AWS documents for each transformation of a path. */
const transform: Record<string, (path: string) => string> = {
  NONE: (path) => path,
  URL_DECODE: (path) => decodeURIComponent(path),
  NORMALIZE_PATH_WIN: (path) => new URL(path.replaceAll("\\", "/"), "https://edge").pathname,
};

function matches(statement: Statement, request: Request): boolean {
  const { andStatement, notStatement, byteMatchStatement, sizeConstraintStatement } = statement;
  if (andStatement) return andStatement.statements.every((one) => matches(one, request));
  if (notStatement) return notStatement.statements.every((one) => !matches(one, request));
  if (sizeConstraintStatement) return (request.authorization ?? "").length > sizeConstraintStatement.size;
  if (!byteMatchStatement) throw new Error(`the test does not know ${JSON.stringify(statement)}`);
  const { searchString, textTransformations } = byteMatchStatement;
  const path = textTransformations
    .toSorted((one, other) => one.priority - other.priority)
    .reduce((text, { type }) => (transform[type] as (text: string) => string)(text), request.path);
  return path.startsWith(searchString);
}

/** The key by which each matching rule counts a request. */
function countedAs(request: Request): string[] {
  return firewallRules.flatMap(({ name, statement: { rateBasedStatement: rule } }) => {
    if (!matches(rule.scopeDownStatement as Statement, request)) return [];
    return [`${name} ${rule.aggregateKeyType === "IP" ? request.address : request.authorization}`];
  });
}

describe("the firewall", () => {
  const runner = { path: "/v1/runner/output", authorization: "Bearer token-1", address: "203.0.113.1" };

  it("counts runners by their token, not by their shared address", () => {
    const other = { ...runner, authorization: "Bearer token-2" };
    expect(countedAs(runner)).toEqual(["Runners Bearer token-1"]);
    expect(countedAs(other)).toEqual(["Runners Bearer token-2"]);
  });

  const asUser = ["Keys Bearer token-1", "Addresses 203.0.113.1"];

  it("counts users by their key, and by their address whichever keys they try", () => {
    expect(countedAs({ ...runner, path: "/v1/tasks" })).toEqual(asUser);
    expect(countedAs({ path: "/v1/tasks", address: "203.0.113.1" })).toEqual(["Anonymous 203.0.113.1"]);
  });

  it.each([
    "/v1/runner/../tasks",
    "/v1/runner/%2e%2e/tasks",
    "/v1/runner/%2E./tasks",
    "/v1/runner/..\\tasks",
    "/v1/runner/./../../v1/tasks",
    "/v1/tasks/..%2frunner/output",
    "/v1//runner/output",
    "/v1/runner",
    "//v1/runner/output",
    "/v1/%72unner/output",
    "/v1/runner/%252e%252e/tasks/%2e%2e/%2e%2e/tasks",
  ])("treats a request as a runner's only if the api does: %s", (path) => {
    expect(countedAs({ ...runner, path })).toEqual(asUser);
  });

  it("counts requests without a token as a user's, on every path", () => {
    expect(countedAs({ path: runner.path, address: runner.address })).toEqual(["Anonymous 203.0.113.1"]);
  });

  it("blocks requests over the limit, and nothing else", () => {
    expect(firewallRules.map(({ action }) => action)).toEqual(firewallRules.map(() => ({ block: {} })));
  });
});
