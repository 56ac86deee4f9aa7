import { ProviderError } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver } from "../../../test/testing/driver.ts";

let api: Driver["api"];
let { start, get, post, running, end } = createDriver();
beforeEach(() => {
  ({ api, start, get, post, running, end } = createDriver());
});

type Call = "create" | "probe" | "writeFiles" | "launch" | "extend";

/** The provider fails once in this call. */
function failOnce(call: Call, kind: ProviderError["kind"]): void {
  const { provider } = api.deps;
  const before = provider[call];
  Object.assign(provider, {
    [call]: async () => {
      Object.assign(provider, { [call]: before });
      throw new ProviderError(kind, "the provider failed");
    },
  });
}

describe("a turn that is being provisioned", () => {
  it.each(["create", "writeFiles", "launch"] as const)(
    "is retried when %s fails for a moment, and reports it",
    async (call) => {
      failOnce(call, "transient");
      const id = await start();
      await api.work();
      expect((await get(id)).status).toBe("provisioning");
      const { items } = (await api.request("GET", `/v1/tasks/${id}/events`)).json;
      expect(items.at(-1)).toMatchObject({ type: "progress", step: "retrying" });
      api.advance(2000);
      await api.work();
      expect((await get(id)).status).toBe("running");
      expect(api.world.sandboxes()).toHaveLength(1);
    },
  );

  it.each(["create", "writeFiles", "launch"] as const)(
    "fails when %s is refused, and leaves nothing alive",
    async (call) => {
      failOnce(call, "refused");
      const id = await start();
      await api.work();
      expect(await get(id)).toMatchObject({ status: "failed", error: { code: "provision_failed" } });
      expect(api.world.processes.filter(({ alive }) => alive)).toEqual([]);
    },
  );

  it.each(["writeFiles", "launch"] as const)(
    "gets another sandbox when its own is lost just before %s",
    async (call) => {
      const { id, token } = await running();
      await end(token);
      await api.deps.store.putFlags({ ENABLE_HEALTH_PROBE: "off" });
      api.advance(10_000);
      const { provider } = api.deps;
      const before = provider[call] as (...given: unknown[]) => Promise<unknown>;
      Object.assign(provider, {
        [call]: (...given: unknown[]) => {
          api.world.lose(api.world.created[0] ?? "");
          return before(...given);
        },
      });
      await post(`/v1/tasks/${id}/continue`, { prompt: "more" });
      await api.work();
      api.advance(2000);
      await api.work();
      expect(await get(id)).toMatchObject({ status: "running", sandbox: { origin: "cold" } });
      expect(api.world.sandboxes()).toHaveLength(1);
    },
  );

  it("gets another sandbox when its own cannot be extended to the turn's end", async () => {
    const { id, token } = await running({ limits: { maxDurationMs: 60_000 } });
    await end(token);
    failOnce("extend", "refused");
    await post(`/v1/tasks/${id}/continue`, { prompt: "more", limits: { maxDurationMs: 7_200_000 } });
    await api.work();
    expect(await get(id)).toMatchObject({ status: "running", sandbox: { origin: "snapshot", epoch: 2 } });
    expect(api.world.sandboxes()).toHaveLength(1);
  });

  it("is launched once, however many messages ask for it", async () => {
    const id = await start();
    const message = { kind: "provision", taskId: id, turn: 1 } as const;
    api.sent.push(message, message, message);
    await api.work();
    expect(api.world.processes).toHaveLength(1);
    expect(api.world.created).toHaveLength(1);
  });

  it("has its deadline timer at launch, even if timer and sandbox failed at first", async () => {
    failOnce("create", "transient");
    const { timers } = api.deps;
    const { arm } = timers;
    timers.arm = async () => {
      timers.arm = arm;
      throw new Error("the queue does not answer");
    };
    const id = await start();
    await expect(api.work()).rejects.toThrow("the queue does not answer");
    api.advance(10_001);
    api.sent.push({ kind: "provision", taskId: id, turn: 1 });
    await api.work();
    expect((await get(id)).status).toBe("running");
    expect(api.armed).toContainEqual(expect.objectContaining({ kind: "deadline", taskId: id }));
  });

  it("waits for another worker's claim, and takes over when that worker is dead", async () => {
    const id = await start();
    api.deps.provider.create = async () => {
      throw new Error("the worker is no more");
    };
    await expect(api.work()).rejects.toThrow();
    api.sent.push({ kind: "provision", taskId: id, turn: 1 });
    await api.work();
    expect(api.sent).toEqual([{ kind: "provision", taskId: id, turn: 1 }]);
    expect((await get(id)).status).toBe("provisioning");
    api.advance(10_001);
    const { deps } = createDriver().api;
    api.deps.provider.create = deps.provider.create;
    await api.work();
    expect((await get(id)).phases.at(-1)).toMatchObject({
      status: "provisioning",
      note: expect.stringContaining("taken over"),
    });
  });
});
