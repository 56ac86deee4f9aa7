import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { keepAuthorization } from "../../infra/edge.ts";

/** The headers of a request after CloudFront has run the code on it. */
function after(headers: Record<string, { value: string }>): Record<string, { value: string }> {
  const event = { request: { headers } };
  runInNewContext(keepAuthorization, { event });
  return event.request.headers;
}

describe("before a request is signed", () => {
  it("the caller's authorization is kept beside it", () => {
    const authorization = { value: "Bearer key" };
    expect(after({ authorization })).toEqual({ authorization, "x-forwarded-authorization": authorization });
  });

  it("what a caller has put there himself is gone", () => {
    expect(after({ "x-forwarded-authorization": { value: "Bearer key" } })).toEqual({});
  });
});
