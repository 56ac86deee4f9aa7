import { ConciergeError } from "@concierge/client";
import { describe, expect, it } from "vitest";
import { explain, UsageError } from "./errors.ts";
import { collectPair, collectVariable, parseAmount, parseDuration, parseWholeNumber } from "./options.ts";
import { firstLine, formatAge, formatDuration, formatUsd } from "./view/format.ts";

describe("values of options", () => {
  it("durations have a unit", () => {
    expect(["500ms", "30s", "1.5m", "2h", "1d"].map(parseDuration)).toEqual([
      500, 30_000, 90_000, 7_200_000, 86_400_000,
    ]);
    for (const text of ["30", "s", "-1s", "0s", "1w", ""]) expect(() => parseDuration(text)).toThrow(/30s/);
  });

  it("numbers and amounts are checked", () => {
    expect(parseWholeNumber("20")).toBe(20);
    expect(parseAmount("2.5")).toBe(2.5);
    for (const text of ["x", "-1", "1.5", ""]) expect(() => parseWholeNumber(text)).toThrow();
    for (const text of ["x", "-1", "0", " "]) expect(() => parseAmount(text)).toThrow();
  });

  it("pairs are collected, and a value may contain =", () => {
    expect(collectPair("B=2=3", collectPair("A=1"))).toEqual({ A: "1", B: "2=3" });
    expect(() => collectPair("=1")).toThrow();
    expect(() => collectPair("A")).toThrow();
  });

  it("a variable without value is taken from the environment", () => {
    process.env.CLI_TEST_VARIABLE = "here";
    expect(collectVariable("CLI_TEST_VARIABLE")).toEqual({ CLI_TEST_VARIABLE: "here" });
    delete process.env.CLI_TEST_VARIABLE;
    expect(() => collectVariable("CLI_TEST_VARIABLE")).toThrow(/not set/);
  });
});

describe("an error", () => {
  const exitOf = (status: number, code: string) =>
    explain(new ConciergeError({ code, status, detail: "x" })).exitCode;

  it.each([
    [0, "connection_failed", 1],
    [0, "timeout", 1],
    [200, "unexpected_response", 1],
    [404, "unexpected_response", 1],
    [400, "invalid_request", 2],
    [413, "payload_too_large", 2],
    [404, "not_found", 3],
    [401, "unauthorized", 4],
    [403, "forbidden", 4],
    [409, "session_busy", 4],
    [429, "no_room", 4],
    [500, "internal", 1],
    [503, "provider_unavailable", 1],
  ])("with status %i and code %s has exit code %i", (status, code, exitCode) => {
    expect(exitOf(status, code)).toBe(exitCode);
  });

  it("says what to do next", () => {
    expect(explain(new ConciergeError({ code: "unauthorized", status: 401, detail: "x" })).next).toContain(
      "login",
    );
    const internal = new ConciergeError({ code: "internal", status: 500, detail: "x", requestId: "r1" });
    expect(explain(internal).next).toContain("r1");
    expect(explain(new UsageError("x", "y"))).toMatchObject({ exitCode: 2, next: "y" });
  });
});

it("times and amounts are short", () => {
  expect([400, 59_900, 61_000, 3_660_000].map(formatDuration)).toEqual([
    "0.4 s",
    "59.9 s",
    "1 min 1 s",
    "1 h 1 min",
  ]);
  expect([-5, 59_000, 61_000, 7_200_000, 90_000_000].map(formatAge)).toEqual([
    "0 s",
    "59 s",
    "1 min",
    "2 h",
    "1 d",
  ]);
  expect([0, 0.0123, 2.5].map(formatUsd)).toEqual(["$0.00", "$0.0123", "$2.50"]);
  expect(firstLine("one\ntwo", 80)).toBe("one …");
  expect(firstLine("a".repeat(10), 5)).toBe("aaaa…");
});
