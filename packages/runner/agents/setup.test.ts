import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { directoryOf } from "../install.ts";
import { claude } from "./claude.ts";
import { codex } from "./codex.ts";
import { setupScript } from "./setup.ts";

test("a setup installs each agent to where its runner looks for it", () => {
  const home = mkdtempSync(join(tmpdir(), "concierge-setup-"));
  const asked = join(home, "asked");
  writeFileSync(join(home, "npm"), `#!/bin/sh\necho "$@" >> ${asked}\n`);
  chmodSync(join(home, "npm"), 0o755);
  const env = { HOME: home, PATH: `${home}:/usr/bin:/bin` };
  execFileSync("sh", ["-c", setupScript(["claude", "codex"])], { env });
  const lines = readFileSync(asked, "utf8").trim().split("\n");
  rmSync(home, { recursive: true });
  expect(lines).toHaveLength(2);
  for (const [at, adapter] of [claude, codex].entries())
    expect(lines[at]).toContain(`--prefix=${directoryOf(join(home, ".concierge"), adapter)} `);
});

test("an agent that can not be installed is none to set up", () => {
  expect(() => setupScript(["cursor"])).toThrow("cursor can not be installed");
});
