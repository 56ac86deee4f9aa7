import { describe, expect, it } from "vitest";
import { allFlags, createFlagReader, isOnFor } from "./flags.ts";

describe("a percentage of users", () => {
  const users = Array.from({ length: 2000 }, (_, i) => `user-${i}`);
  const among = (value: string) => users.filter((user) => isOnFor(value, "ENABLE_HEALTH_PROBE", user));

  it("selects about that many, always the same ones, and a larger one includes a smaller one", () => {
    const [tenth, half] = [among("10%"), among("50%")];
    expect(tenth.length / users.length).toBeCloseTo(0.1, 1);
    expect(half.length / users.length).toBeCloseTo(0.5, 1);
    expect(among("10%")).toEqual(tenth);
    expect(half).toEqual(expect.arrayContaining(tenth));
    expect(among("0%")).toEqual([]);
    expect(among("100%")).toEqual(users);
    expect(among("on")).toEqual(users);
    expect(among("off")).toEqual([]);
  });

  it("selects other users for another flag", () => {
    const others = users.filter((user) => isOnFor("10%", "ENABLE_DB_BACKED_STOP", user));
    expect(others).not.toEqual(among("10%"));
  });
});

describe("the flags that are read", () => {
  it("are at most ten seconds old, and stored values override start values", async () => {
    let now = 0;
    let reads = 0;
    let stored = {};
    const store = {
      getFlags: async () => {
        reads += 1;
        return stored;
      },
    };
    const flags = createFlagReader(
      { store, clock: { now: () => now, sleep: async () => {} } },
      allFlags("on"),
    );
    const isOn = () => flags.isOn("ENABLE_HEALTH_PROBE", "ada");
    expect(await isOn()).toBe(true);
    stored = { ENABLE_HEALTH_PROBE: "off" };
    now = 9999;
    expect(await isOn()).toBe(true);
    expect(reads).toBe(1);
    now = 10_000;
    expect(await isOn()).toBe(false);
  });
});
