import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { claude } from "./claude.ts";
import { codex } from "./codex.ts";
import { directoryOf } from "./install.ts";
import { setupScript } from "./setup.ts";

test("the setup script installs each agent where the runner looks for it", () => {
  const home = mkdtempSync(join(tmpdir(), "concierge-setup-"));
  const log = join(home, "asked");
  writeFileSync(join(home, "npm"), `#!/bin/sh\necho "$@" >> ${log}\n`);
  chmodSync(join(home, "npm"), 0o755);
  const env = { HOME: home, PATH: `${home}:/usr/bin:/bin` };
  execFileSync("sh", ["-c", setupScript(["claude", "codex"])], { env });
  const lines = readFileSync(log, "utf8").trim().split("\n");
  rmSync(home, { recursive: true });
  expect(lines).toHaveLength(2);
  for (const [at, adapter] of [claude, codex].entries())
    expect(lines[at]).toContain(`--prefix=${directoryOf(join(home, ".concierge"), adapter)} `);
});

test("an agent that cannot be installed is refused", () => {
  expect(() => setupScript(["cursor"])).toThrow("cursor cannot be installed");
});
