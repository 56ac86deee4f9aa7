import { beforeAll, describe, expect, it, vi } from "vitest";
import { checks } from "./checks/index.ts";
import { evaluate, requiredSecrets } from "./program.ts";
import { render } from "./render.ts";
import { find, type Program, read } from "./resources.ts";

// Each is a bundle and a process, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

describe.each(["dev", "production"])("the SST program for stage %s", (stage) => {
  let program: Program;

  beforeAll(async () => {
    program = await render(stage);
  });

  it.each(Object.entries(checks))("%s", (_sentence, check) => {
    expect(check(program)).toEqual([]);
  });
});

it("a personal stage equals dev", async () => {
  const program = await render("alice");
  expect(Object.values(checks).flatMap((check) => check(program))).toEqual([]);
});

it("a variable without its secret is absent, not empty", async () => {
  const evaluated = await evaluate({
    stage: "dev",
    secrets: requiredSecrets,
    environment: { OPENAI_BASE_URL: "" },
  });
  const worker = find({ ...evaluated, stage: "dev", secrets: {} }, "function", "WorkerFunction");
  const variables = Object.keys(Object(read(worker, "environment.variables")));
  expect(variables).toContain("VERCEL_TOKEN");
  expect(variables.filter((name) => /^(ANTHROPIC|OPENAI|CURSOR)_/.test(name))).toEqual([]);
});

it("a stage without the admin key cannot be deployed", async () => {
  const { AdminApiKey: _, ...secrets } = requiredSecrets;
  await expect(evaluate({ stage: "dev", secrets })).rejects.toThrow("Set a value for AdminApiKey");
});

it("a stage whose name cannot be in a sandbox name is refused", async () => {
  await expect(evaluate({ stage: "Alice's" })).rejects.toThrow('"Alice\'s" is not a valid stage');
});

it("a failing program is reported with its error", async () => {
  const mutate = [{ file: "infra/storage.ts", from: "ttl: ttlField", to: "ttl: missing.field" }];
  await expect(evaluate({ stage: "dev", mutate })).rejects.toThrow("missing is not defined");
});

it("a program that never ends is ended", async () => {
  const mutate = [
    {
      file: "sst.config.ts",
      from: 'await import("./infra/storage.ts");',
      to: "await new Promise(() => {});",
    },
  ];
  await expect(evaluate({ stage: "dev", mutate, deadlineMs: 3000 })).rejects.toThrow(
    "has not settled in 3000 ms",
  );
});
