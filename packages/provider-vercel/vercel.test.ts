import { afterEach, describe, expect, it, vi } from "vitest";
import { exitCodes } from "./shell/scripts.ts";
import { createVercelProvider } from "./vercel.ts";

/** What the SDK's sweep returns, to tell it from the launcher's. */
const loadSdk = vi.hoisted(() => vi.fn(() => ({ sweep: async () => "alive" })));
vi.mock("./sdk.ts", () => ({ createSdkProvider: loadSdk }));

const options = { token: "token", teamId: "team", projectId: "project" };
const sandbox = { name: "box", sessionId: "session" };

afterEach(() => {
  vi.unstubAllGlobals();
  loadSdk.mockClear();
});

function launcherExitsWith(exitCode: number, status = 200): void {
  vi.stubGlobal("fetch", async () => Response.json({ command: { exitCode } }, { status }));
}

describe("a stop", () => {
  it.each(["clean", "superseded"] as const)(
    "does not load the SDK if the launcher reports %s",
    async (result) => {
      launcherExitsWith(exitCodes[result]);
      const provider = createVercelProvider(options);
      expect(await provider.sweep(sandbox, "/run", { commandId: "cmd" })).toBe(result);
      expect(loadSdk).not.toHaveBeenCalled();
    },
  );

  it.each([
    ["reports that something is alive", exitCodes.alive, 200],
    ["was killed", 137, 200],
    ["cannot be reached", exitCodes.clean, 503],
  ])("sweeps with the SDK if the launcher %s", async (_what, exitCode, status) => {
    launcherExitsWith(exitCode, status);
    const provider = createVercelProvider(options);
    expect(await provider.sweep(sandbox, "/run", { commandId: "cmd" })).toBe("alive");
    expect(loadSdk).toHaveBeenCalledOnce();
  });

  it("sweeps with the SDK if the launch is unknown, and loads the SDK once", async () => {
    launcherExitsWith(exitCodes.clean);
    const provider = createVercelProvider(options);
    await Promise.all([provider.sweep(sandbox, "/run"), provider.sweep(sandbox, "/run")]);
    expect(loadSdk).toHaveBeenCalledOnce();
  });
});
