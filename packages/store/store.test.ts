import { execFileSync } from "node:child_process";
import { physicalName } from "@concierge/dev";
import { describe, expect, it } from "vitest";
import { type Engine, startDynalite, startDynamoDbLocal } from "../../test/testing/dynamodb.ts";
import { createDynamoStore } from "./dynamo.ts";
import { createMemoryStore } from "./memory.ts";
import { manualClock, type OpenStore } from "./testing/contract/fixture.ts";
import { storeContract } from "./testing/contract/store-contract.ts";

storeContract("memory", async () => {
  const clock = manualClock();
  return { store: createMemoryStore({ clock }), ...clock, close: async () => {} };
});

storeContract("dynalite, the embedded engine", async () => on(await startDynalite()));

if (hasJava()) {
  storeContract("AWS's DynamoDB Local", async () => on(await startDynamoDbLocal()));
} else {
  console.error("JAVA IS MISSING: the store's contract was NOT run on AWS's DynamoDB Local.");
  describe("the store on AWS's DynamoDB Local", () => {
    it.skipIf(!process.env.CI)("has Java", () => expect.fail("CI needs Java for this suite"));
  });
}

function on(engine: Engine): OpenStore {
  const clock = manualClock();
  const store = createDynamoStore({ client: engine.client, tableName: physicalName("Table"), clock });
  return { store, ...clock, close: engine.close };
}

function hasJava(): boolean {
  try {
    execFileSync("java", ["-version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
