import { limits, ProviderError, parseConfig } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createTestApi } from "../../../test/testing/api.ts";
import { createDriver, type Driver } from "../../../test/testing/driver.ts";

let api: Driver["api"];
let { get, post, running } = createDriver();
function use(variables: Record<string, string> = {}): void {
  const config = parseConfig({ CONCIERGE_DEFAULT_AGENT: "shell", CONCIERGE_STAGE: "test", ...variables });
  ({ api, get, post, running } = createDriver(createTestApi(config)));
}
beforeEach(() => use());

const pool = async () => (await api.request("GET", "/v1/pool")).json;
const reap = async () => (await post("/v1/reap", {})).json;

describe("the warm pool", () => {
  it.each([
    ["is refused", "create"],
    ["makes one that can run nothing", "exec"],
  ] as const)("creates the others when one create %s, and leaves nothing behind", async (_how, call) => {
    use({ POOL_WARM_TARGET: "3" });
    const { provider, store } = api.deps;
    const real = provider[call] as (...given: unknown[]) => Promise<unknown>;
    let calls = 0;
    Object.assign(provider, {
      [call]: async (...given: unknown[]) => {
        calls += 1;
        if (calls === 2) throw new ProviderError("transient", "away");
        return await real(...given);
      },
    });
    expect((await reap()).warmed).toBe(3);
    const messages = api.sent.splice(0);
    for (const message of messages) {
      api.sent.push(message);
      await api.work().catch(() => {});
    }
    expect(await pool()).toMatchObject({ warm: 2 });
    // Everything that may exist has a slot and a record, so that the reaper finds it.
    const named = new Set((await store.listSlots()).map(({ name }) => name));
    for (const { name } of api.world.sandboxes()) expect(named).toContain(name);
    expect((await store.listWarm()).map(({ name }) => name).sort()).toEqual([...named].sort());

    api.advance(limits.longestCreateMs);
    await reap();
    await api.work();
    await reap();
    await api.work();
    expect(await pool()).toMatchObject({ total: 3, warm: 3, creating: 0 });
    expect(api.world.sandboxes()).toHaveLength(3);
    expect(await store.listSlots()).toHaveLength(3);
  });

  it("leaves no record when others took the last slot meanwhile", async () => {
    use({ POOL_WARM_TARGET: "1", POOL_MAX_SANDBOXES: "1" });
    const { store } = api.deps;
    const { listSlots } = store;
    store.listSlots = async () => {
      // Listed once, as it was before the other came.
      store.listSlots = listSlots;
      await store.putSlot({ name: "another's", at: 1, userId: "alice", sessionKey: "a" });
      return [];
    };
    api.sent.push({ kind: "warm" });
    await api.work();
    expect(await store.listWarm()).toEqual([]);
    expect(api.world.created).toEqual([]);
    expect((await store.listSlots()).map(({ name }) => name)).toEqual(["another's"]);
  });

  it("creates none beyond the cap, and leaves no record of them", async () => {
    use({ POOL_WARM_TARGET: "3", POOL_MAX_SANDBOXES: "2" });
    expect((await reap()).warmed).toBe(2);
    api.sent.push({ kind: "warm" }, { kind: "warm" });
    await api.work();
    expect(await pool()).toMatchObject({ total: 2, warm: 2 });
    expect(await api.deps.store.listWarm()).toHaveLength(2);
  });
});

describe("the base snapshot, with a warm pool", () => {
  const setup = { SANDBOX_SETUP: "npm install the-agent" };

  it("comes first: no warm sandbox is created before it is built", async () => {
    use({ ...setup, POOL_WARM_TARGET: "3" });
    const installs: string[] = [];
    const { exec } = api.deps.provider;
    api.deps.provider.exec = async (sandbox, execution) => {
      if (execution.args[1] === setup.SANDBOX_SETUP) installs.push(sandbox.name);
      return await exec(sandbox, execution);
    };
    expect((await reap()).warmed).toBe(0);
    expect(api.sent).toEqual([{ kind: "base" }]);
    // A message for a warm sandbox that comes too early, or twice, creates nothing.
    api.sent.unshift({ kind: "warm" });
    await api.work();
    expect(api.world.created).toEqual([expect.stringContaining("-base-")]);

    expect((await reap()).warmed).toBe(3);
    await api.work();
    expect(installs).toEqual([expect.stringContaining("-base-")]);
    expect(await pool()).toMatchObject({ total: 3, warm: 3 });
    const { id } = await running();
    expect((await get(id)).sandbox.origin).toBe("warm");
  });

  it("leaves the warm pool alone while it is rebuilt", async () => {
    use({ ...setup, POOL_WARM_TARGET: "1" });
    await reap();
    await api.work();
    Object.assign(api.deps.config, { setup: "npm install another" });
    expect((await reap()).warmed).toBe(0);
    expect(api.sent).toEqual([{ kind: "base" }]);
    await api.work();
    expect((await reap()).warmed).toBe(1);
  });
});
