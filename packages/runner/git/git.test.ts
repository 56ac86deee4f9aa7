import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { everyCommandLine } from "../testing/git-world.ts";
import { allPids, until } from "../testing/runner.ts";
import { createGit, type GitCall } from "./git.ts";

const credential = { username: "me", token: "t0k\\en-of-mine" };
const access = { url: "https://host:8443/app.git", credential };

function newGit() {
  const timings = { killGraceMs: 200, pipeGraceMs: 100 };
  return createGit({ markers: { MARKER: "here" }, timings, onChange: () => {} });
}

/** Makes git run a script, by an alias. */
function shell(script: string, call: Partial<GitCall> = {}): GitCall {
  return { args: ["-c", `alias.x=!${script}`, "x"], timeoutMs: 20_000, ...call };
}

describe("git", () => {
  test("passes input, and returns output and exit code", async () => {
    const result = await newGit().run(shell("f() { cat; echo bad >&2; exit 3; }; f", { input: "hello" }));
    expect(result).toEqual({ exitCode: 3, timedOut: false, stdout: "hello", stderr: "bad\n" });
  });

  test("has its own environment and configuration, without the turn's", async () => {
    process.env.CONCIERGE_TURN = "hidden";
    process.env.GIT_DIR = "hidden";
    try {
      const { stdout } = await newGit().run(shell("env"));
      expect(stdout).not.toContain("hidden");
      const lines = stdout.split("\n");
      for (const line of [
        "MARKER=here",
        "HOME=/dev/null",
        "GIT_CONFIG_GLOBAL=/dev/null",
        "GIT_TERMINAL_PROMPT=0",
      ]) {
        expect(lines).toContain(line);
      }
      expect(stdout).not.toContain("CONCIERGE_GIT");
    } finally {
      delete process.env.CONCIERGE_TURN;
      delete process.env.GIT_DIR;
    }
  });

  test.each([
    ["the same", "host:8443", "password=t0k\\en-of-mine"],
    ["another host", "evil:8443", undefined],
    ["another port", "host", undefined],
  ])("gives the credential only to its host and port: %s", async (_, host, expected) => {
    const input = `protocol=https\nhost=${host}\n\n`;
    const { stdout } = await newGit().run({ args: ["credential", "fill"], input, access, timeoutMs: 20_000 });
    expect(stdout.split("\n").find((line) => line.startsWith("password="))).toBe(expected);
  });

  test("keeps only a bounded part of long output, and the end of stderr", async () => {
    const { stdout, stderr } = await newGit().run(shell("f() { seq 100000; seq 100000 >&2; }; f"));
    expect(stdout.length).toBe(64 * 1024);
    expect(stderr.length).toBe(8 * 1024);
    expect(stderr.endsWith("\n100000\n")).toBe(true);
  });

  test("is killed with all its processes after a timeout", async () => {
    const mark = `mark-${randomUUID()}`;
    const script = `f() { trap '' TERM; sh -c 'trap "" TERM; while :; do sleep 0.05; done' ${mark}; }; f`;
    const result = await newGit().run(shell(script, { timeoutMs: 300 }));
    expect(result).toMatchObject({ exitCode: null, timedOut: true });
    await until("it is gone", () => !everyCommandLine().includes(mark));
  });

  test("is not waited for because of a background process", async () => {
    const { stdout } = await newGit().run(shell("f() { sleep 300 & echo $!; }; f"));
    const pid = Number(stdout);
    expect(allPids()).toContain(pid);
    process.kill(pid, "SIGKILL");
  });

  test("that is not installed is reported as such", async () => {
    const path = process.env.PATH;
    process.env.PATH = "/nonexistent";
    try {
      await expect(newGit().run(shell("true"))).rejects.toThrow("git cannot be started: ENOENT");
    } finally {
      process.env.PATH = path;
    }
  });

  test("is ended by close and not started after it", async () => {
    const git = newGit();
    const running = git.run(shell("sleep 300"));
    await until("it runs", () => git.isBusy());
    git.close();
    expect(await running).toMatchObject({ exitCode: null, timedOut: false });
    expect(git.isBusy()).toBe(false);
    await expect(git.run(shell("echo hello"))).rejects.toThrow("the turn is over");
  });
});
