import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver, failing } from "../../../test/testing/driver.ts";

let on: Driver;
beforeEach(() => {
  on = createDriver();
});

const minute = 60_000;
const reap = () => on.api.request("POST", "/v1/reap").then(({ json }) => json);
const working = { at: undefined, lastOutputAt: undefined, undelivered: false, activity: "tool" } as const;

/** Minute by minute: the runner beats, due timers fire, the reaper makes its pass. */
async function pass(minutes: number, { token, beats = true }: { token?: string; beats?: boolean } = {}) {
  for (let at = 0; at < minutes * 6; at++) {
    on.api.advance(10_000);
    if (beats && token) await on.say(token, "beat", { activity: "tool" });
    await on.api.fire("inactivity");
    if (at % 6 === 5) await reap();
  }
}

describe("a silent turn", () => {
  it("ends at the cap on silent work, even if its runner keeps claiming to work", async () => {
    const { id, token, process } = await on.running({ limits: { maxDurationMs: 120 * minute } });
    process.state = working;
    await pass(14, { token });
    expect((await on.get(id)).status).toBe("running");
    await pass(2, { token });
    expect(await on.get(id)).toMatchObject({ status: "failed", error: { code: "inactivity_timeout" } });
    expect(process.alive).toBe(false);
  });

  it("ends at the cap even if the provider never answers", async () => {
    const { id, token } = await on.running({ limits: { maxDurationMs: 120 * minute } });
    const { provider } = on.api.deps;
    const { probe } = provider;
    provider.probe = failing("transient");
    await pass(14, { token });
    expect((await on.get(id)).status).toBe("running");
    await pass(2, { token });
    provider.probe = probe;
    await on.api.fire("terminate");
    expect((await on.get(id)).error.code).toBe("inactivity_timeout");
  });

  it("is noticed within the inactivity time if its runner was killed, and its processes are ended", async () => {
    const { id, process } = await on.running({ limits: { maxDurationMs: 120 * minute } });
    process.state = working;
    process.hasLostRunner = true;
    await pass(2, { beats: false });
    expect(await on.get(id)).toMatchObject({
      status: "failed",
      error: { code: "agent_failed", detail: expect.stringContaining("runner") },
    });
    expect(process.alive).toBe(false);
  });

  it("is noticed by the runner's old timestamp if the runner is frozen", async () => {
    const { id, process } = await on.running({ limits: { maxDurationMs: 120 * minute } });
    process.state = { ...working, at: on.api.deps.clock.now() };
    await pass(3, { beats: false });
    expect((await on.get(id)).error?.code).toBe("inactivity_timeout");
  });

  it.each(["lose", "stop"] as const)(
    "is noticed within the inactivity time if its sandbox is gone (%s)",
    async (how) => {
      const { id, process } = await on.running({ limits: { maxDurationMs: 120 * minute } });
      on.api.world[how](process.sandbox);
      await pass(2, { beats: false });
      expect(await on.get(id)).toMatchObject({ status: "failed", error: { code: "sandbox_lost" } });
    },
  );
});

describe("an active turn", () => {
  it("is not due while it prints, so the reaper skips it", async () => {
    const { id, token } = await on.running({ limits: { maxDurationMs: 120 * minute } });
    const chunk = {
      stream: "stdout",
      at: new Date(0).toISOString(),
      data: Buffer.from("x").toString("base64"),
    };
    for (let seq = 1; seq <= 60; seq++) {
      on.api.advance(10_000);
      await on.say(token, "output", { seq, chunks: [chunk] });
      expect((await reap()).tasks).toEqual({});
    }
    expect((await on.get(id)).status).toBe("running");
  });

  it("is written for few of its beats, and re-indexed for fewer", async () => {
    const { token } = await on.running({ limits: { maxDurationMs: 120 * minute } });
    const { store } = on.api.deps;
    const { changeTask } = store;
    const writes: boolean[] = [];
    store.changeTask = async (...given) => {
      writes.push(given[2].set?.dueAt !== undefined);
      return await changeTask(...given);
    };
    for (let at = 0; at < 60; at++) {
      on.api.advance(10_000);
      await on.say(token, "beat", { activity: "model" });
    }
    expect(writes.length).toBeLessThanOrEqual(20);
    expect(writes.filter(Boolean).length).toBeLessThanOrEqual(20);
  });
});
