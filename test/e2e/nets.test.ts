import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { topology } from "../../infra/topology.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

/** The topology without readers of these queues: every message is lost. */
function deaf(...names: ("Worker" | "Timer")[]) {
  const functions = Object.entries(topology.functions).map(([name, definition]) => {
    const { sources, ...rest } = { sources: undefined, ...definition };
    return [name, (names as string[]).includes(name) || !sources ? rest : { ...rest, sources }];
  });
  return { ...topology, functions: Object.fromEntries(functions) };
}

describe("when every timer is lost", () => {
  it("the reaper alone ends turns past their deadline, silent turns and unproven stops", async () => {
    await using concierge = await startConcierge({ topology: deaf("Timer"), reapEveryMs: 500 });
    const { client, control } = concierge;
    // The runner is frozen too: otherwise its own limits would end it first.
    const frozen = "echo started; kill -STOP $PPID; sleep 1000";
    const late = await client.start(frozen, { limits: { maxDurationMs: 4000, inactivityMs: 60_000 } });
    const silent = await client.start(frozen, { limits: { inactivityMs: 2000 } });
    const stuck = await client.start("echo started; sleep 1000");
    await client.until(stuck.id, ({ status }) => status === "running");
    for (const route of ["killCommand", "runCommand", "getSandbox", "deleteSandbox"]) {
      await control("POST", "/faults", { route, count: 6, effect: { type: "status", status: 500 } });
    }
    await client.stop(stuck.id);
    await control("DELETE", "/faults");

    expect(await client.ended(late.id, 60_000)).toMatchObject({
      status: "timed_out",
      error: { code: "deadline_exceeded" },
    });
    expect(await client.ended(silent.id, 60_000)).toMatchObject({
      status: "failed",
      error: { code: "inactivity_timeout" },
    });
    expect(await client.ended(stuck.id, 60_000)).toMatchObject({ status: "stopped" });
    const enders = (await client.get(late.id)).phases.map(({ by }) => by);
    expect(enders).toContain("reaper");
  });
});

describe("when every message is lost", () => {
  it("the reaper alone ends a task that no worker received", async () => {
    await using concierge = await startConcierge({ topology: deaf("Timer", "Worker"), reapEveryMs: 500 });
    const { client } = concierge;
    const { id } = await client.start("echo never", { limits: { maxDurationMs: 2000 } });
    expect(await client.ended(id, 60_000)).toMatchObject({ status: "timed_out", sandbox: null });
  });
});

describe("orphans", () => {
  it("are deleted once they are old; named, young and foreign sandboxes stay", async () => {
    await using concierge = await startConcierge();
    const { client, provider } = concierge;
    const kept = await client.start("echo kept");
    const { sandbox } = await client.ended(kept.id);
    const tags = { app: "concierge", stage: "dev", user: "dev", session: "nobody" };
    await provider.create({ name: "concierge-dev-orphan-1", tags, timeoutMs: 600_000 });
    await provider.create({
      name: "somebody-else",
      tags: { app: "another", stage: "dev" },
      timeoutMs: 600_000,
    });

    const young = await client.json("POST", "/v1/reap", { dryRun: true });
    expect(young).toMatchObject({ orphans: [], complete: true, failures: [] });
    expect(await provider.probe("concierge-dev-orphan-1")).toMatchObject({ health: "healthy" });
    expect(await provider.probe(sandbox?.name ?? "")).toMatchObject({ health: "healthy" });
  });
});

describe("a sandbox that is lost under its agent", () => {
  it("fails the turn with sandbox_lost without a retry, and continue creates a new one", async () => {
    await using concierge = await startConcierge({ reapEveryMs: 500 });
    const { client, provider } = concierge;
    const { id } = await client.start("echo started; sleep 1000", { limits: { inactivityMs: 2000 } });
    const { sandbox } = await client.until(id, (task) => task.status === "running" && task.sandbox !== null);
    await provider.remove(sandbox?.name ?? "");
    expect(await client.ended(id, 30_000)).toMatchObject({
      status: "failed",
      error: { code: "sandbox_lost" },
    });

    await client.continue(id, "echo back");
    expect(await client.ended(id)).toMatchObject({
      status: "succeeded",
      sandbox: { origin: "cold", epoch: 2 },
    });
  });
});

describe("kill -9 of each function at each phase", () => {
  const victims = ["Api", "Worker", "Timer", "Reaper"] as const;
  const moments = ["queued", "provisioning", "running", "stopping"] as const;

  it.each(moments)(
    "while tasks are %s: every task ends correctly, and nothing is left running",
    async (moment) => {
      await using concierge = await startConcierge({ reapEveryMs: 500 });
      const { client, control, kill } = concierge;
      await control("PUT", "/latency", { createMs: 300 });
      const started = await Promise.all(victims.map(() => client.start("echo one; sleep 1; echo two")));
      for (const [i, victim] of victims.entries()) {
        const id = started[i]?.id ?? "";
        const asked = moment === "stopping" ? stopped(concierge, id) : undefined;
        await reached(concierge, id, moment);
        kill(victim);
        await asked;
      }
      for (const { id } of started) {
        const task = await client.ended(id, 60_000);
        expect(task.error?.code ?? "none").toMatch(moment === "stopping" ? /stopped_by_user|none/ : /none/);
        if (task.status === "succeeded") expect((await client.output(id)).toString()).toBe("one\ntwo\n");
      }
    },
  );

  async function reached({ client }: Concierge, id: string, moment: string): Promise<void> {
    await client.until(
      id,
      ({ phases }) => phases.some(({ status }) => status === moment) || moment === "stopping",
    );
  }

  /** The api may die during the stop: then ask again. */
  async function stopped({ client }: Concierge, id: string): Promise<void> {
    for (let tries = 0; tries < 100; tries++) {
      const answer = await client.stop(id).catch(() => undefined);
      if (answer) return;
      await delay(50);
    }
  }
});
