import { describe, expect, it } from "vitest";
import { ConfigError, parseConfig } from "./config.ts";

describe("the environment", () => {
  it("has a default for everything", () => {
    expect(parseConfig({})).toMatchObject({
      inactivityMs: 60_000,
      maxDurationMs: 300_000,
      sessionIdleMs: 1_800_000,
      maxOutputBytes: 104_857_600,
      defaultAgent: "claude",
    });
  });

  it("switches flags", () => {
    const { flags } = parseConfig({ ENABLE_HEALTH_PROBE: "false", ENABLE_DB_BACKED_STOP: "10%" });
    expect(flags).toMatchObject({
      ENABLE_HEALTH_PROBE: "off",
      ENABLE_DB_BACKED_STOP: "10%",
      ENABLE_INACTIVITY_TIMEOUT: "on",
    });
  });

  it("treats an empty variable as not set", () => {
    expect(parseConfig({ AGENT_MAX_WAIT_TIME_MS: "" }).maxDurationMs).toBe(300_000);
  });

  it.each([
    ["AGENT_INACTIVITY_TIMEOUT_MS", "soon", "takes a whole number of milliseconds from 1000 to 86400000"],
    ["AGENT_MAX_WAIT_TIME_MS", "5", "takes a whole number of milliseconds from 1000 to 86400000"],
    ["AGENT_MAX_OUTPUT_BYTES", "1e9", "takes a whole number of bytes from 1024 to 1073741824"],
    ["CONCIERGE_API_KEY", "short", "takes 16 to 256 printable characters without spaces"],
    ["CONCIERGE_DEFAULT_AGENT", "hal", "takes claude, codex, cursor or shell"],
    ["ENABLE_HEALTH_PROBE", "perhaps", "takes true, false or a percentage such as 10%"],
    ["POOL_WARM_TARGET", "-1", "takes a whole number of sandboxes from 0 to 200"],
    ["CONCIERGE_URL", "ftp://x", "takes an http or https URL"],
  ])("reports an invalid value in one line: %s=%s", (name, value, message) => {
    expect(() => parseConfig({ [name]: value })).toThrow(new ConfigError(`${name} ${message}`));
  });
});
