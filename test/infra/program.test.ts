import { beforeAll, describe, expect, it } from "vitest";
import { type Evaluated, evaluate } from "./program.ts";

describe.each(["dev", "production"])("the SST program, for the stage %s", (stage) => {
  let evaluated: Evaluated;

  beforeAll(async () => {
    evaluated = await evaluate({ stage });
  });

  it("makes a function of every definition", () => {
    const names = evaluated.builds.map(({ functionID }) => functionID).sort();
    expect(names).toEqual(["Api", "Reaper", "Timer", "Worker"]);
  });
});

it("ends with what is wrong when the program fails", async () => {
  const mutate = [{ file: "infra/storage.ts", from: "ttl: ttlField", to: "ttl: missing.field" }];
  await expect(evaluate({ stage: "dev", mutate })).rejects.toThrow("missing is not defined");
});
