import { afterAll, beforeAll, describe } from "vitest";
import { createFixture, type OpenStore } from "./fixture.ts";
import { listContract } from "./lists.ts";
import { otherContract } from "./others.ts";
import { recordContract } from "./records.ts";
import { sessionContract } from "./session.ts";
import { taskContract } from "./task.ts";
import { userContract } from "./users.ts";

/** The promises of every store, tested on each engine: memory, dynalite, DynamoDB Local. */
export function storeContract(name: string, open: () => Promise<OpenStore>): void {
  describe(`the store on ${name}`, () => {
    let opened: OpenStore | undefined;
    beforeAll(async () => {
      opened = await open();
    });
    afterAll(async () => await opened?.close());

    const on = createFixture(() => {
      if (!opened) throw new Error("the store is not open");
      return opened;
    });
    taskContract(on);
    listContract(on);
    recordContract(on);
    sessionContract(on);
    otherContract(on);
    userContract(on);
  });
}
