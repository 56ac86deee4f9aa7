import { expect, it } from "vitest";
import { judge } from "./harness.ts";
import { writes } from "./writes.ts";

it("no verb writes more often than its bound", async () => {
  const results = (await writes.run()).map((figure) => judge(writes.name, figure));
  expect(results.filter(({ target }) => target).length).toBeGreaterThan(3);
  expect(results.filter(({ met }) => met === false)).toEqual([]);
});
