import { limits, ProviderError } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver, failing, push, repo } from "../../../test/testing/driver.ts";

let on: Driver;
beforeEach(() => {
  on = createDriver();
});

const minute = 60_000;
const reap = () => on.api.request("POST", "/v1/reap").then(({ json }) => json);
const stored = (id: string) => on.api.deps.store.getTask(id);
const session = () => on.api.deps.store.getSession("admin", "default");

describe("a stop while the provider does not answer", () => {
  it("keeps the sandbox, and is proven by the first clean sweep", async () => {
    const { id } = await on.running();
    const { provider } = on.api.deps;
    const { sweep } = provider;
    provider.sweep = failing("transient");
    expect((await on.stop(id)).status).toBe(202);
    await on.api.fire("terminate");
    expect((await on.get(id)).status).toBe("stopping");
    expect((await session())?.sandbox?.state).toBe("ready");
    provider.sweep = sweep;
    await on.api.fire("terminate");
    expect((await on.get(id)).status).toBe("stopped");
    expect((await session())?.sandbox?.state).toBe("ready");
    expect(on.api.world.sandboxes()).toHaveLength(1);
  });

  it("deletes the sandbox after several unanswered sweeps in a row", async () => {
    const { id } = await on.running();
    on.api.deps.provider.sweep = failing("transient");
    await on.stop(id);
    for (let i = 1; i < limits.unansweredSweepsMax; i++) await on.api.fire("terminate");
    expect((await on.get(id)).status).toBe("stopped");
    expect(on.api.world.sandboxes()).toEqual([]);
  });

  it("deletes the sandbox at once if a sweep finds something alive", async () => {
    const { id } = await on.running();
    on.api.deps.provider.sweep = async () => "alive";
    expect((await on.stop(id)).status).toBe(200);
    expect(on.api.world.sandboxes()).toEqual([]);
  });

  it.each([
    ["gone", "stopped"],
    ["stopped", "stopped"],
    ["transient", "stopping"],
    ["throttled", "stopping"],
    ["refused", "stopping"],
  ] as const)("treats a sandbox that is %s as %s", async (kind, status) => {
    const { id } = await on.running();
    on.api.deps.provider.sweep = async () => {
      throw new ProviderError(kind, "no");
    };
    await on.stop(id);
    expect((await on.get(id)).status).toBe(status);
  });

  it("records each attempt before making it, and makes it once", async () => {
    const { id } = await on.running();
    let sweeps = 0;
    on.api.deps.provider.sweep = async () => {
      const task = await stored(id);
      sweeps += 1;
      expect(task?.state).toMatchObject({ status: "stopping", attempts: sweeps });
      expect(task?.dueAt).toBeGreaterThan(on.api.deps.clock.now());
      throw new ProviderError("transient", "no");
    };
    await on.stop(id);
    expect(sweeps).toBe(1);
    const [timer] = on.api.armed.filter(({ kind }) => kind === "terminate");
    if (!timer) throw new Error("no timer");
    // Ten deliveries of one message are one attempt, and arm one timer.
    on.api.armed.push(...Array.from({ length: 9 }, () => timer));
    on.api.deps.provider.sweep = failing("transient");
    const task = await stored(id);
    on.api.deps.store.getTask = async () => structuredClone(task);
    await on.api.fire("terminate");
    expect(on.api.armed.filter(({ kind }) => kind === "terminate")).toHaveLength(1);
  });
});

describe("a push with unknown outcome", () => {
  async function finalizing(): Promise<string> {
    const { id, token } = await on.running({ repo });
    expect((await on.say(token, "finalize", push)).json.action).toBe("go");
    on.api.advance(minute);
    return id;
  }

  it("is looked up for 15 minutes; then the turn ends with the outcome unknown", async () => {
    const id = await finalizing();
    on.api.deps.git.readBranch = async () => {
      throw new Error("The git remote answered 500.");
    };
    for (let waited = minute; waited < 15 * minute; waited += 2 * minute) {
      await on.api.fire("finalize");
      expect((await on.get(id)).status).toBe("finalizing");
      expect((await on.stop(id)).status).toBe(409);
      on.api.advance(2 * minute);
    }
    await on.api.fire("finalize");
    const ended = await on.get(id);
    expect(ended).toMatchObject({ status: "failed", error: { code: "finalize_timeout" } });
    expect(ended.error.detail).toContain("unknown");
    expect((await on.post("/v1/tasks", { prompt: "x" })).status).toBe(202);
  });

  it("is ended by the reaper if every timer was lost", async () => {
    const id = await finalizing();
    on.api.deps.git.readBranch = failing("transient");
    for (let passes = 0; passes < 20; passes++) {
      on.api.advance(minute);
      await reap();
    }
    expect(await on.get(id)).toMatchObject({ status: "failed", error: { code: "finalize_timeout" } });
  });

  it("succeeds once the remote answers", async () => {
    const id = await finalizing();
    const { git } = on.api.deps;
    const { readBranch } = git;
    git.readBranch = failing("transient");
    await on.api.fire("finalize");
    git.readBranch = readBranch;
    on.api.refs.set(`${repo.url} ${push.branch}`, push.commit);
    await on.api.fire("finalize");
    expect(await on.get(id)).toMatchObject({ status: "succeeded", result: { pushed: true } });
  });
});

describe("the follow-up of a turn", () => {
  const webhook = { url: "https://hooks.example/x" };
  const lost = async () => {
    throw new Error("the queue is away");
  };

  it("is done once, by the reaper if the message was lost", async () => {
    const { id, token } = await on.running({ webhook, keepAlive: false });
    const { send } = on.api.deps.work;
    on.api.deps.work.send = lost;
    expect((await on.end(token)).json.action).toBe("done");
    on.api.deps.work.send = send;
    expect((await stored(id))?.dueAt).toBeDefined();
    on.api.advance(limits.followUpDueMs);
    expect((await reap()).tasks).toEqual({ "follow up": 1 });
    await on.api.work();
    expect(on.api.told.map(({ id: told }) => told)).toEqual([`${id}-1`]);
    expect(on.api.world.sandboxes()).toEqual([]);
    expect((await on.api.request("GET", "/v1/costs")).json.total.turns).toBe(1);
    expect((await stored(id))?.dueAt).toBeUndefined();
    on.api.advance(10 * minute);
    expect((await reap()).tasks).toEqual({});
  });

  it("is retried if it fails halfway", async () => {
    const { id, token } = await on.running({ webhook });
    await on.end(token);
    const { addUsage } = on.api.deps.store;
    on.api.deps.store.addUsage = lost;
    await expect(on.api.work()).rejects.toThrow("away");
    on.api.deps.store.addUsage = addUsage;
    on.api.advance(minute);
    await reap();
    expect((await on.api.request("GET", "/v1/costs")).json.total.turns).toBe(1);
    expect((await stored(id))?.countedTurn).toBe(1);
  });

  it("is done before the next turn starts", async () => {
    const { id, token } = await on.running({ webhook });
    await on.end(token);
    on.api.sent.length = 0;
    expect((await on.post(`/v1/tasks/${id}/continue`, { prompt: "more" })).status).toBe(202);
    await on.api.work();
    expect(on.api.told.map(({ id: told }) => told)).toEqual([`${id}-1`]);
    expect((await on.api.request("GET", "/v1/costs")).json.total.turns).toBe(1);
  });

  it("counts a stopped turn without any timer", async () => {
    const { id } = await on.running();
    expect((await on.stop(id)).status).toBe(200);
    on.api.armed.length = 0;
    await on.api.work();
    expect((await on.api.request("GET", "/v1/costs")).json.total.turns).toBe(1);
  });
});

describe("a turn that cannot be given a sandbox", () => {
  it("ends with proof, because a dead worker may have launched it", async () => {
    const id = await on.start();
    const { store, provider } = on.api.deps;
    const { changeTask } = store;
    store.changeTask = async (...given) => {
      if (given[2].set?.state?.status === "running") throw new Error("the worker dies");
      return await changeTask(...given);
    };
    await expect(on.api.work()).rejects.toThrow("dies");
    store.changeTask = changeTask;
    const [process] = on.api.world.processes;
    expect(process?.alive).toBe(true);
    on.api.advance(limits.claimMs + 1);
    provider.probe = async () => {
      throw new ProviderError("refused", "no more");
    };
    await reap();
    await on.api.work();
    expect(await on.get(id)).toMatchObject({ status: "failed", error: { code: "provision_failed" } });
    expect(process?.alive).toBe(false);
  });

  it("does not grow its item while it waits, and arms one deadline", async () => {
    const id = await on.start({ limits: { maxDurationMs: 60 * minute } });
    on.api.deps.provider.create = failing("transient");
    for (let i = 0; i < 200; i++) {
      await on.api.work();
      on.api.advance(20_000);
      if (on.api.sent.length === 0) break;
    }
    const task = await stored(id);
    expect(task?.phases.length).toBeLessThanOrEqual(3);
    expect(on.api.armed.filter(({ kind }) => kind === "deadline")).toHaveLength(1);
  });

  it("keeps its claim when one renewal fails", async () => {
    const id = await on.start();
    const { store, provider } = on.api.deps;
    const { changeTask } = store;
    const renewals: unknown[] = [];
    store.changeTask = async (...given) => {
      const isRenewal = given[1].claimId !== undefined && given[2].set?.state?.status === "provisioning";
      if (isRenewal && renewals.push(given) === 1) throw new Error("the table is away");
      return await changeTask(...given);
    };
    const { create } = provider;
    provider.create = async (options) => {
      for (let i = 0; i < 3; i++) await on.api.passTime(limits.claimRenewMs);
      return await create(options);
    };
    await on.api.work();
    expect((await on.get(id)).status).toBe("running");
    expect(renewals.length).toBeGreaterThanOrEqual(2);
  });
});

describe("a sandbox that stops between the probe and the launch", () => {
  it.each(["on", "off"])("is resumed with its files, with the probe %s", async (probe) => {
    const { token } = await on.running();
    await on.end(token);
    const [name = ""] = on.api.world.created;
    await on.api.request("PUT", "/v1/flags", { body: { ENABLE_HEALTH_PROBE: probe } });
    on.api.advance(11_000);
    const id = await on.start();
    const { provider } = on.api.deps;
    const { writeFiles } = provider;
    provider.writeFiles = async (...given) => {
      provider.writeFiles = writeFiles;
      on.api.world.stop(name);
      await writeFiles(...given);
    };
    await on.api.work();
    await on.api.work();
    expect(await on.get(id)).toMatchObject({ status: "running", sandbox: { name, origin: "resumed" } });
    expect(on.api.world.created).toEqual([name]);
  });
});
