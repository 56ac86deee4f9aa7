import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { repositoryRoot } from "@concierge/bundler";
import { describe, expect, it, vi } from "vitest";
import { type FunctionDefinition, topology } from "../../infra/topology.ts";
import { checkVariables } from "../../infra/variables.ts";
import { evaluate } from "./program.ts";

vi.setConfig({ testTimeout: 60_000 });

const definitions: [string, FunctionDefinition][] = Object.entries(topology.functions);

/** The longest value of each, except the script. */
const longest: Record<string, string> = Object.fromEntries(
  definitions
    .flatMap(([, { environment }]) => environment)
    .filter((variable) => variable !== "SANDBOX_SETUP")
    .map((variable) => [variable, variable.endsWith("_URL") ? "x".repeat(100) : "x".repeat(16)]),
);
/** The space that is always left. */
const guaranteedBytes = 800;

describe("the variables of a function (4 KB on Lambda)", () => {
  it.each(definitions)("leave space for a setup script with everything else set: %s", (name, definition) => {
    const given = { ...longest, SANDBOX_SETUP: "x".repeat(guaranteedBytes) };
    expect(() => checkVariables(name, definition, given)).not.toThrow();
  });

  it("are refused when they are too large, naming the longest and the excess", () => {
    const given = { SANDBOX_SETUP: "x".repeat(4000) };
    expect(() => checkVariables("Worker", topology.functions.Worker, given)).toThrow(
      /^Worker may get \d+ bytes of variables, and Lambda allows 4096\. SANDBOX_SETUP has 4013: make it \d+ shorter, /,
    );
  });

  it("are counted in bytes, by name and value, per function", () => {
    const given = { SANDBOX_SETUP: "ü".repeat(2000) };
    expect(() => checkVariables("Timer", topology.functions.Timer, given)).toThrow("SANDBOX_SETUP has 4013");
    expect(() => checkVariables("Webhook", topology.functions.Webhook, given)).not.toThrow();
  });

  it("are refused by the build, before anything is bundled", async () => {
    const build = promisify(execFile)(
      process.execPath,
      [join(repositoryRoot, "packages/bundler/bin/concierge-build.mjs")],
      { cwd: repositoryRoot, env: { ...process.env, SANDBOX_SETUP: "x".repeat(4000) } },
    );
    await expect(build).rejects.toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(/^Api may get/),
    });
  });

  it("are refused by the program, before anything is deployed", async () => {
    const environment = { SANDBOX_SETUP: "x".repeat(4000) };
    await expect(evaluate({ stage: "dev", environment })).rejects.toThrow("Api may get");
  });
});
