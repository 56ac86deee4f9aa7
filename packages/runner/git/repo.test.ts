import { maskText } from "@concierge/protocol/mask";
import { expect, test } from "vitest";
import { failureLogMaxLength } from "../process/errors.ts";
import { parseLaunchConfig } from "../turn/config.ts";
import type { Git, GitCall, GitResult } from "./git.ts";
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

test("git's error message is masked", async () => {
  const { steps } = repoWith(whenFetching({ exitCode: 128, stderr: `fatal: no ${credential.token} here\n` }));
  await expect(steps.prepare(credential)).rejects.toThrow(/^fatal: no \*\*\* here$/);
});

test("git's error message is masked before it is cut", async () => {
  const stderr = `${credential.token}${"x".repeat(failureLogMaxLength - 5)}`;
  const { steps } = repoWith(whenFetching({ exitCode: 128, stderr }));
  const error: unknown = await steps.prepare(credential).catch((thrown: unknown) => thrown);
  expect((error as Error).message).toBe(
    `***${"x".repeat(failureLogMaxLength - 5)}`.slice(-failureLogMaxLength),
  );
});

test("without a message, the error has git's exit code", async () => {
  const { steps } = repoWith(whenFetching({ exitCode: 7 }));
  await expect(steps.prepare(credential)).rejects.toThrow("git ended with 7");
});

test("only commands that use the remote get the credential", async () => {
  const { calls, steps } = repoWith(whenFetching({}));
  await steps.prepare(credential);
  const withAccess = calls.filter(({ access }) => access !== undefined).map(({ args }) => args);
  expect(withAccess.map((args) => args.find((arg) => arg === "fetch" || arg === "remote"))).toEqual([
    "fetch",
    "remote",
  ]);
});
