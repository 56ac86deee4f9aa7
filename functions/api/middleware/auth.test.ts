import { expect, it } from "vitest";
import { adminKey, createTestApi } from "../../../test/testing/api.ts";

const signature = "AWS4-HMAC-SHA256 Credential=key, SignedHeaders=host, Signature=0";

it("behind CloudFront the caller's key is read from x-forwarded-authorization", async () => {
  const headers = { authorization: signature, "x-forwarded-authorization": `Bearer ${adminKey}` };
  const answer = await createTestApi().request("GET", "/v1/flags", { headers });
  expect(answer.status).toBe(200);
});

it("CloudFront's signature is not accepted as a key", async () => {
  const answer = await createTestApi().request("GET", "/v1/flags", { headers: { authorization: signature } });
  expect(answer.status).toBe(401);
});
