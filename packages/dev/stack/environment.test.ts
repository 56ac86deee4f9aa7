import { describe, expect, test } from "vitest";
import { checkEnvironment, withDefaults } from "./environment.ts";

const own = "http://127.0.0.1:4000";
const sandbox = { url: "http://127.0.0.2:4001", token: "random" };
const real = { VERCEL_TOKEN: "t", VERCEL_TEAM_ID: "team", VERCEL_PROJECT_ID: "p" };

describe("the defaults of development", () => {
  test("select the local provider and the shell agent", () => {
    expect(withDefaults({}, own, sandbox)).toEqual({
      CONCIERGE_STAGE: "dev",
      CONCIERGE_DEFAULT_AGENT: "shell",
      USER_REQUESTS_PER_MINUTE: "1000000",
      USER_REQUESTS_PER_MINUTE_PER_KEY: "1000000",
      CONCIERGE_ADMIN_USER_ID: "dev",
      CONCIERGE_ALLOW_PRIVATE_HOSTS: "true",
      CONCIERGE_URL: own,
      VERCEL_SANDBOX_URL: sandbox.url,
      VERCEL_TOKEN: sandbox.token,
      VERCEL_TEAM_ID: "local",
      VERCEL_PROJECT_ID: "local",
    });
  });

  test("yield to set variables, but not to empty ones", () => {
    const set = { CONCIERGE_DEFAULT_AGENT: "claude", CONCIERGE_STAGE: "" };
    expect(withDefaults(set, own, sandbox)).toMatchObject({
      CONCIERGE_DEFAULT_AGENT: "claude",
      CONCIERGE_STAGE: "dev",
    });
  });

  test("give local sandboxes the stack's address and real ones CONCIERGE_URL", () => {
    const tunnel = { CONCIERGE_URL: "https://tunnel.example" };
    expect(withDefaults(tunnel, own, sandbox).CONCIERGE_URL).toBe(own);
    expect(withDefaults({ ...tunnel, ...real }, own, undefined).CONCIERGE_URL).toBe(tunnel.CONCIERGE_URL);
  });
});

describe("the check of the environment", () => {
  test.each([
    [{ AGENT_MAX_WAIT_TIME_MS: "soon" }, /^AGENT_MAX_WAIT_TIME_MS takes /],
    [{ CONCIERGE_API_KEY: "has a space in it" }, /^CONCIERGE_API_KEY takes /],
    [{ VERCEL_TEAM_ID: "team" }, /^VERCEL_TOKEN, VERCEL_PROJECT_ID must be set too/],
  ])("refuses %j with a line that names the variable", (env, line) => {
    expect(() => checkEnvironment(env)).toThrow(line);
  });

  test.each([{}, real, { CONCIERGE_API_KEY: "" }])("accepts %j", (env) => {
    expect(() => checkEnvironment(env)).not.toThrow();
  });
});
