import { describe, expect, it } from "vitest";
import { parseArguments, UsageError } from "./args.ts";

describe("the command line of the simulation", () => {
  it("runs 200 seeds from 1 by default", () => {
    expect(parseArguments([])).toMatchObject({ mode: "seeds", from: 1, to: 200 });
  });

  it("replays one seed", () => {
    expect(parseArguments(["--seed", "77", "--trace"])).toMatchObject({ from: 77, to: 77, trace: true });
  });

  it("runs the given number of seeds from the given one", () => {
    expect(parseArguments(["--seeds", "10", "--from", "5"])).toMatchObject({ from: 5, to: 14 });
  });

  it.each([
    [["--seeds", "0"]],
    [["--seeds", "many"]],
    [["--seed", "1", "--seeds", "2"]],
    [["--trace"]],
    [["--unknown"]],
    [["stray"]],
  ])("refuses %j", (argv) => {
    expect(() => parseArguments(argv)).toThrow(UsageError);
  });
});
