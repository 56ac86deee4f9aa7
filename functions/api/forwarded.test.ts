import { expect, it } from "vitest";
import { adminKey, createTestApi } from "./testing.ts";

const signature = "AWS4-HMAC-SHA256 Credential=key, SignedHeaders=host, Signature=0";

it("behind the router the caller's key is beside the router's signature", async () => {
  const headers = { authorization: signature, "x-forwarded-authorization": `Bearer ${adminKey}` };
  const answer = await createTestApi().request("GET", "/v1/flags", { headers });
  expect(answer.status).toBe(200);
});

it("the router's signature is nobody's key", async () => {
  const answer = await createTestApi().request("GET", "/v1/flags", { headers: { authorization: signature } });
  expect(answer.status).toBe(401);
});
