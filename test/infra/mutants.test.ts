import { describe, expect, it, vi } from "vitest";
import { checks } from "./checks/index.ts";
import { mutants } from "./mutants.ts";
import { render } from "./render.ts";

// Each is a bundle and a process, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

describe("a mistake in the infrastructure is found", () => {
  it.each(mutants)("$mistake ($stage)", async ({ stage, mutation, foundBy }) => {
    const program = await render(stage, [mutation]);
    expect(checks[foundBy](program)).not.toEqual([]);
  });
});

it("a mutation whose target is missing is an error", async () => {
  const mutation = { file: "infra/queues.ts", from: "no such text", to: "" };
  await expect(render("dev", [mutation])).rejects.toThrow("infra/queues.ts has 0 places with: no such text");
});
