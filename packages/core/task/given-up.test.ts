import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver, failing } from "../../../test/testing/driver.ts";

let driver: Driver;
beforeEach(() => {
  driver = createDriver();
});

/**
 * The launch happens, but its response is lost. Then the session gives its sandbox up, like a worker that dies between
 * its intent to replace the sandbox and the removal.
 */
async function launchAndGiveUp(): Promise<string> {
  const { api, start } = driver;
  const { provider, store } = api.deps;
  const launch = provider.launch;
  provider.launch = async (...call) => {
    await launch(...call);
    throw await failing("transient")().catch((error: unknown) => error);
  };
  const id = await start();
  await api.work();
  provider.launch = launch;
  expect(api.world.processes.map(({ alive }) => alive)).toEqual([true]);
  const session = await store.getSession("admin", "default");
  const { epoch = 0 } = session ?? {};
  await store.changeSession(
    "admin",
    "default",
    { epoch },
    { set: { epoch: epoch + 1 }, remove: ["sandbox"] },
  );
  return id;
}

describe("a turn that was launched in a sandbox that its session gave up", () => {
  it("is stopped only after that sandbox is removed", async () => {
    const id = await launchAndGiveUp();
    expect((await driver.stop(id)).json.status).toBe("stopped");
    expect(driver.api.world.processes.map(({ alive }) => alive)).toEqual([false]);
  });

  it("is not stopped while that sandbox cannot be removed", async () => {
    const id = await launchAndGiveUp();
    driver.api.deps.provider.remove = failing("transient");
    expect((await driver.stop(id)).json.status).toBe("stopping");
  });

  it("runs once after a retry in the sandbox that the session has now", async () => {
    const id = await launchAndGiveUp();
    const { provider, store, clock } = driver.api.deps;
    const live = await provider.create({ name: "other", tags: {}, timeoutMs: 3_600_000 });
    const now = clock.now();
    const sandbox = { state: "ready", ...live, createdAt: now, origin: "warm", extendedAt: now } as const;
    await store.changeSession("admin", "default", {}, { set: { sandbox } });
    driver.api.advance(20_000);
    await driver.api.work();
    expect((await driver.get(id)).sandbox.name).toBe("other");
    expect(driver.api.world.processes.map(({ alive }) => alive)).toEqual([false, true]);
  });
});
