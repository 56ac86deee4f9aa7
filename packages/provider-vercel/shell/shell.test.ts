import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { generate, scriptsFile } from "./generate.ts";
import { hideConfigScript } from "./scripts.ts";

const { dirname } = import.meta;
const canCheck = hasShellcheck();

describe("the shell scripts", () => {
  it("equal their copy in scripts.ts (if not: npm run shell)", () => {
    expect(readFileSync(scriptsFile, "utf8")).toBe(generate());
  });

  it("filter processes by the variable that the local API's unisolated mode sets", () => {
    const [, name = "?"] = /\$(\w+_MARK)"/.exec(readFileSync(`${dirname}/common.sh`, "utf8")) ?? [];
    const plain = readFileSync(`${dirname}/../../vercel-sandbox-local/isolation/plain.ts`, "utf8");
    expect(plain).toContain(`"${name}"`);
  });

  it.runIf(canCheck)("pass shellcheck", () => {
    const files = readdirSync(dirname).filter((name) => name.endsWith(".sh"));
    expect(files).toHaveLength(4);
    const { stdout, status } = spawnSync("shellcheck", ["-x", ...files], { cwd: dirname, encoding: "utf8" });
    expect(stdout).toBe("");
    expect(status).toBe(0);
  });
});

describe.each(["sh", "bash"])("hide-config.sh in %s", (shell) => {
  it.each([10, 3_000, 100_000])("moves a configuration of %d bytes out of the environment", (bytes) => {
    const config = JSON.stringify({ token: `it's $HOME \`x\` \\n ${"x".repeat(bytes)}` });
    const script = `cat <&3; tr '\\0' '\\n' < /proc/$$/environ; echo "$KEPT $1 $2"`;
    const args = ["-c", hideConfigScript, "sh", script, "first arg", "second"];
    const env = { ...process.env, KEPT: "kept", CONCIERGE_TURN: config };
    const { stdout, stderr } = spawnSync(shell, args, { env, encoding: "utf8" });
    expect(stderr).toBe("");
    const [first, ...rest] = stdout.split("\n");
    expect(first).toBe(config);
    expect(rest.join("\n")).not.toContain("CONCIERGE_TURN");
    expect(rest).toContain("kept first arg second");
  });
});

function hasShellcheck(): boolean {
  try {
    execFileSync("shellcheck", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    const line = "SHELLCHECK IS MISSING: the scripts of packages/provider-vercel/shell ARE NOT CHECKED";
    if (process.env.CI) throw new Error(line);
    console.error(line);
    return false;
  }
}
