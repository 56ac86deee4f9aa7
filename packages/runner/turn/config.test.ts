import type { LaunchConfig } from "@concierge/protocol";
import { describe, expect, test } from "vitest";
import {
  defaultActivityCapMs,
  defaultMaxSpoolBytes,
  defaultTimings,
  parseLaunchConfig,
  secretsOf,
} from "./config.ts";

const valid: LaunchConfig = {
  protocol: 1,
  taskId: "task_1",
  turn: 1,
  url: "http://127.0.0.1:4000/",
  token: "hidden-token",
  agent: "shell",
  runDir: "/run",
  cwd: "/home/agent",
  maxDurationMs: 300_000,
  inactivityMs: 60_000,
  maxOutputBytes: 1_000,
  env: { NAME: "hidden-value" },
};

const repo = { url: "https://host/app.git", branch: "concierge/work", push: true, message: "Do it" };

describe("the launch configuration", () => {
  test("gets defaults and a URL without a trailing slash", () => {
    expect(parseLaunchConfig(JSON.stringify(valid))).toEqual({
      ...valid,
      agentEnv: {},
      url: "http://127.0.0.1:4000",
      timings: defaultTimings,
      activityCapMs: defaultActivityCapMs,
      maxSpoolBytes: defaultMaxSpoolBytes,
    });
  });

  test("accepts a request id that is a valid header value", () => {
    const parsed = (requestId: string) =>
      parseLaunchConfig(JSON.stringify({ ...valid, requestId })).requestId;
    expect(parsed("request-1")).toBe("request-1");
    expect(() => parsed("two\r\nlines")).toThrow("requestId must be a valid header value");
  });

  test("accepts single timings", () => {
    const { timings } = parseLaunchConfig(JSON.stringify({ ...valid, timings: { beatMs: 50 } }));
    expect(timings).toEqual({ ...defaultTimings, beatMs: 50 });
  });

  test("accepts the agent's own environment and treats all of it as secret except the model's address", () => {
    const agentEnv = { ANTHROPIC_API_KEY: "hidden-key", ANTHROPIC_BASE_URL: "http://127.0.0.1:9" };
    const config = parseLaunchConfig(JSON.stringify({ ...valid, agentEnv, conversationId: "a-1" }));
    expect(config).toMatchObject({ agentEnv, conversationId: "a-1" });
    expect(secretsOf(config)).toEqual(["hidden-token", "hidden-value", "hidden-key"]);
  });

  test("accepts a repository", () => {
    expect(parseLaunchConfig(JSON.stringify({ ...valid, repo })).repo).toEqual(repo);
    const withBase = { ...repo, baseBranch: "main" };
    expect(parseLaunchConfig(JSON.stringify({ ...valid, repo: withBase })).repo).toEqual(withBase);
  });

  test.each<[string, Record<string, unknown>]>([
    ["protocol", { protocol: 2 }],
    ["taskId", { taskId: "" }],
    ["turn", { turn: 0 }],
    ["turn", { turn: 1.5 }],
    ["url", { url: "ftp://host" }],
    ["token", { token: 7 }],
    ["token", { token: "hidden\r\nhost: other" }],
    ["runDir", { runDir: "" }],
    ["cwd", { cwd: undefined }],
    ["maxDurationMs", { maxDurationMs: "300000" }],
    ["maxSpoolBytes", { maxSpoolBytes: -1 }],
    ["env", { env: [] }],
    ["env.A", { env: { A: 1 } }],
    ["env.A", { env: { A: "\0" } }],
    ["agentEnv", { agentEnv: "hidden" }],
    ["agentEnv.A", { agentEnv: { A: 1 } }],
    ["conversationId", { conversationId: "" }],
    ["conversationId", { conversationId: "--hidden" }],
    ["conversationId", { conversationId: "hidden\n" }],
    ["conversationId", { conversationId: "x".repeat(201) }],
    ["timings has no beat", { timings: { beat: 1 } }],
    ["repo", { repo: null }],
    ["repo.url", { repo: { ...repo, url: "ssh://host/app.git" } }],
    ["repo.url", { repo: { ...repo, url: "https://user:hidden@host/app.git" } }],
    ["repo.branch", { repo: { ...repo, branch: "--force" } }],
    ["repo.branch", { repo: { ...repo, branch: "a:b" } }],
    ["repo.baseBranch", { repo: { ...repo, baseBranch: "" } }],
    ["repo.push", { repo: { ...repo, push: "yes" } }],
    ["repo.message", { repo: { ...repo, message: undefined } }],
  ])("is refused with the name of an invalid %s and without its value", (name, change) => {
    const parse = () => parseLaunchConfig(JSON.stringify({ ...valid, ...change }));
    expect(parse).toThrow(`CONCIERGE_TURN.${name}`);
    expect(parse).not.toThrow(/hidden/);
  });

  test("is refused without showing its content if it is not JSON", () => {
    expect(() => parseLaunchConfig("hidden")).toThrow(/^CONCIERGE_TURN is not JSON$/);
    expect(() => parseLaunchConfig("[]")).toThrow("must be an object");
    expect(() => parseLaunchConfig(undefined)).toThrow("is not set");
  });
});
