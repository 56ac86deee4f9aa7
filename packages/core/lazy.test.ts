import { describe, expect, it } from "vitest";
import { lazily } from "./lazy.ts";

class Counter {
  #count = 0;
  async add(by: number): Promise<number> {
    this.#count += by;
    return this.#count;
  }
  async fail(): Promise<never> {
    throw new Error("it can not");
  }
}

describe("what is made lazily", () => {
  it("is made by the first call, once, however many come at once", async () => {
    let made = 0;
    const counter = lazily(async () => {
      made++;
      return new Counter();
    });
    expect(made).toBe(0);
    expect(await Promise.all([counter.add(1), counter.add(2)])).toEqual([1, 3]);
    expect(made).toBe(1);
  });

  it("fails as it would fail itself, and where it can not be made", async () => {
    await expect(lazily(async () => new Counter()).fail()).rejects.toThrow("it can not");
    const unmade = lazily<Counter>(async () => {
      throw new Error("no credentials");
    });
    await expect(unmade.add(1)).rejects.toThrow("no credentials");
  });

  it("is not made for a method that is there already", async () => {
    const unmade = async () => {
      throw new Error("made");
    };
    const counter = lazily<Counter>(unmade, { add: async (by) => by });
    expect(await counter.add(3)).toBe(3);
    await expect(counter.fail()).rejects.toThrow("made");
  });

  it("can be awaited like any other value", async () => {
    const counter = await lazily(async () => new Counter());
    expect(await counter.add(2)).toBe(2);
  });
});
