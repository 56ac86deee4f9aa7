import { expect, test } from "vitest";
import { parseLaunchConfig } from "./config.ts";
import type { Git, GitCall, GitResult } from "./git.ts";
import { maskText } from "./mask.ts";
import { MAX_DETAIL_LENGTH } from "./protocol.ts";
import { createRepo } from "./repo.ts";

const repo = { url: "http://127.0.0.1:1/app.git", branch: "work", push: true, message: "Do it" };
const credential = { username: "me", token: "t0ken-of-mine" };

function repoWith(answer: (call: GitCall) => Partial<GitResult>, maxDurationMs = 1_000_000) {
  const config = parseLaunchConfig(
    JSON.stringify({
      protocol: 1,
      taskId: "task_1",
      turn: 1,
      url: "http://127.0.0.1:1",
      token: "token",
      agent: "shell",
      runDir: "/nonexistent/run",
      cwd: "/nonexistent/work",
      maxDurationMs,
      inactivityMs: 1_000,
      maxOutputBytes: 1_000,
      env: {},
    }),
  );
  const calls: GitCall[] = [];
  const git: Git = {
    async run(call) {
      calls.push(call);
      return { exitCode: 0, timedOut: false, stdout: "", stderr: "", ...answer(call) };
    },
    isBusy: () => false,
    close: () => {},
  };
  const mask = (text: string) => maskText([credential.token], text);
  return { calls, steps: createRepo({ config, repo, git, mask }) };
}

const whenFetching = (result: Partial<GitResult>) => (call: GitCall) => {
  if (call.args.includes("--get")) return { exitCode: 1 };
  return call.args.includes("fetch") ? result : {};
};

test("what git says about a failure is shown without the credential", async () => {
  const { steps } = repoWith(whenFetching({ exitCode: 128, stderr: `fatal: no ${credential.token} here\n` }));
  await expect(steps.prepare(credential)).rejects.toThrow(/^fatal: no \*\*\* here$/);
});

test("what git says about a failure is cut, and only after it is masked", async () => {
  const stderr = `${credential.token}${"x".repeat(MAX_DETAIL_LENGTH - 5)}`;
  const { steps } = repoWith(whenFetching({ exitCode: 128, stderr }));
  const error: unknown = await steps.prepare(credential).catch((thrown: unknown) => thrown);
  expect((error as Error).message).toBe(`***${"x".repeat(MAX_DETAIL_LENGTH - 5)}`.slice(-MAX_DETAIL_LENGTH));
});

test("a git that says nothing is reported by its exit code", async () => {
  const { steps } = repoWith(whenFetching({ exitCode: 7 }));
  await expect(steps.prepare(credential)).rejects.toThrow("git ended with 7");
});

test("only what talks to the remote gets the credential", async () => {
  const { calls, steps } = repoWith(whenFetching({}));
  await steps.prepare(credential);
  const withAccess = calls.filter(({ access }) => access !== undefined).map(({ args }) => args);
  expect(withAccess.map((args) => args.find((arg) => arg === "fetch" || arg === "remote"))).toEqual([
    "fetch",
    "remote",
  ]);
});
