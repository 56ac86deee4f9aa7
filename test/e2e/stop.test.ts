import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { alive, headless, hopping } from "../testing/processes.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

let concierge: Concierge;
beforeAll(async () => {
  concierge = await startConcierge({ apiProcesses: 2, reapEveryMs: 1000 });
});
afterAll(async () => await concierge[Symbol.asyncDispose]());

/** Each script marks its processes with a number that nothing else on the machine has. */
let marks = 700_000_000 + process.pid * 1000;

async function running(script: (mark: number) => string, over: Record<string, unknown> = {}) {
  const { client } = concierge;
  const mark = ++marks;
  const { id, sandbox } = await client.start(`${script(mark)}\necho started\nsleep ${mark}`, over);
  await expect
    .poll(async () => (await client.output(id)).toString(), { timeout: 20_000 })
    .toContain("started");
  // It prints before it starts to sleep.
  await expect.poll(() => alive(String(mark)), { timeout: 10_000 }).not.toEqual([]);
  return { id, mark, sandbox };
}

/** The process that launched the runner: its parent, field 4 of its stat. */
const launcher = "$(cut -d ' ' -f 4 /proc/$PPID/stat)";

describe("a stop ends", () => {
  it.each([
    ["an agent that sleeps", () => ":"],
    ["one that ignores SIGTERM, SIGINT and SIGHUP", () => "trap '' TERM INT HUP"],
    [
      "a daemon that left its session and closed its files",
      (m: number) => `setsid sh -c 'exec <&- >&- 2>&-; sleep ${m}' &`,
    ],
    ["a daemon that left its environment too", (m: number) => `setsid env -i sleep ${m} &`],
    ["a process whose first thread has ended", headless],
    ["a process in a tight loop", (m: number) => `sh -c 'while :; do :; done' ${m} &`],
    [
      "the children of a fork bomb",
      (m: number) => `sh -c 'f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & }; sleep ${m}; }; f 6' &`,
    ],
    [
      "one that starts itself anew whenever it dies",
      (m: number) => `sh -c 'while :; do sleep ${m}; done' & sh -c 'while :; do setsid sleep ${m}; done' &`,
    ],
    [
      "a task whose runner is frozen and cannot call back",
      (m: number) => `runner=$PPID; sh -c "sleep 0.3; kill -STOP $runner; exec sleep ${m}" &`,
    ],
    ["one that has killed what would sweep it away", () => `kill -9 ${launcher}`],
    [
      "a daemon of one that has killed it, and says that it was never launched",
      (m: number) =>
        `setsid sleep ${m} & for f in /tmp/concierge/*/launched; do echo barred > $f; done; kill -9 ${launcher}`,
    ],
    ["one that has frozen what would sweep it away", () => `kill -STOP ${launcher}`],
  ])("%s, and the sandbox can be used again", async (_what, script) => {
    const { client } = concierge;
    const { id, mark } = await running(script);
    const stopped = await client.stop(id);
    expect(stopped).toMatchObject({ httpStatus: 200, status: "stopped", error: { code: "stopped_by_user" } });
    expect(alive(String(mark))).toEqual([]);
    expect(stopped.timings.stopMs).toEqual(expect.any(Number));
    expect((await client.output(id)).toString()).toBe("started\n");

    await client.continue(id, "echo again");
    const again = await client.ended(id);
    expect(again).toMatchObject({
      status: "succeeded",
      turn: 2,
      sandbox: { name: stopped.sandbox?.name, origin: "reused" },
    });
  });

  it("the sandbox itself without keepAlive, and nothing brings it back", async () => {
    const { client, provider } = concierge;
    const { id, mark } = await running(() => ":", { keepAlive: false });
    const stopped = await client.stop(id);
    expect(stopped).toMatchObject({ httpStatus: 200, status: "stopped" });
    expect(alive(String(mark))).toEqual([]);
    expect(await provider.probe(stopped.sandbox?.name ?? "")).toEqual({ health: "gone" });

    await client.continue(id, "echo again");
    const again = await client.ended(id);
    expect(again).toMatchObject({ status: "succeeded", sandbox: { origin: "cold" } });
    expect(again.sandbox?.name).not.toBe(stopped.sandbox?.name);
    expect(await provider.probe(stopped.sandbox?.name ?? "")).toEqual({ health: "gone" });
  });

  it("a process that forks faster than it can be listed, if necessary with the sandbox", {
    timeout: 90_000,
  }, async () => {
    const { client } = concierge;
    const { id, mark } = await running(hopping);
    expect(await client.stop(id)).toMatchObject({ httpStatus: 200, status: "stopped" });
    // It is there at all times, but not in every look.
    for (let looks = 0; looks < 200; looks++) {
      expect(alive(String(mark))).toEqual([]);
      // Looks block the event loop. Without a turn of the loop, a connection that was closed meanwhile would be used
      // again.
      await setImmediate();
    }
    await client.continue(id, "echo again");
    expect(await client.ended(id)).toMatchObject({ status: "succeeded" });
  });

  it("the task once, however many requests arrive through different processes", async () => {
    const { client } = concierge;
    const { id, mark } = await running(() => "setsid sleep 1 &");
    const answers = await Promise.all(Array.from({ length: 12 }, () => client.stop(id)));
    expect(alive(String(mark))).toEqual([]);
    for (const { status } of answers) expect(["stopped", "stopping"]).toContain(status);
    const task = await client.ended(id);
    expect(task.phases.filter(({ status }) => status === "stopped")).toHaveLength(1);
    expect(await client.stop(id)).toMatchObject({ httpStatus: 200, status: "stopped" });
  });
});

describe("a stop that comes early", () => {
  it("before a worker claims the task: nothing is created", async () => {
    const { client, control, kill } = concierge;
    const before = await created(control);
    kill("Worker");
    const { id } = await client.start("echo never");
    expect(await client.stop(id)).toMatchObject({ httpStatus: 200, status: "stopped", sandbox: null });
    await expect
      .poll(() => concierge.processes().some(({ name }) => name.startsWith("Worker")), { timeout: 10_000 })
      .toBe(true);
    const next = await client.start("echo next");
    await client.ended(next.id);
    expect(await created(control)).toBe(before + 1);
    expect((await client.output(id)).length).toBe(0);
  });

  it("during the create: the sandbox is removed, and nothing ran in it", async () => {
    const { client, control, provider } = concierge;
    await control("PUT", "/latency", { createMs: 2000 });
    const before = await created(control);
    const { id } = await client.start("echo never");
    await expect.poll(() => created(control), { timeout: 10_000 }).toBe(before + 1);
    expect(await client.stop(id)).toMatchObject({ httpStatus: 200, status: "stopped" });
    await control("PUT", "/latency", { createMs: 0 });

    const creating = (await client.events(id)).find(({ step }) => step === "creating");
    const name = String(creating?.detail);
    await expect.poll(() => finishedCreates(control), { timeout: 10_000 }).toBe(before + 1);
    await expect.poll(() => provider.probe(name), { timeout: 10_000 }).toEqual({ health: "gone" });
    expect((await client.output(id)).length).toBe(0);
  });

  it("during the launch: the launch is barred or the runner is killed", async () => {
    const { client, control } = concierge;
    const mark = ++marks;
    await control("POST", "/faults", { route: "runCommand", effect: { type: "delay", delayMs: 1000 } });
    const { id } = await client.start(`sleep ${mark}`);
    await expect
      .poll(async () => (await client.events(id)).some(({ step }) => step === "launching"), {
        timeout: 10_000,
      })
      .toBe(true);
    const stopped = await client.stop(id);
    const ended = stopped.status === "stopped" ? stopped : await client.ended(id);
    expect(ended.status).toBe("stopped");
    await client.continue(id, "echo on");
    expect((await client.ended(id)).status).toBe("succeeded");
    expect(alive(String(mark))).toEqual([]);
  });
});

describe("a stop while the provider fails", () => {
  it("answers 202, and a timer proves it once the provider is back", async () => {
    const { client, control } = concierge;
    const { id, mark } = await running(() => ":");
    for (const route of ["killCommand", "runCommand", "getSandbox", "deleteSandbox", "getSession"]) {
      await control("POST", "/faults", { route, count: 12, effect: { type: "status", status: 500 } });
    }
    const answer = await client.stop(id);
    expect(answer).toMatchObject({ httpStatus: 202, status: "stopping" });
    await control("DELETE", "/faults");
    expect(await client.ended(id, 60_000)).toMatchObject({ status: "stopped" });
    expect(alive(String(mark))).toEqual([]);
  });
});

describe("a stop whose launcher cannot be signalled", () => {
  it.each([
    ["is refused", { type: "status", status: 500 }],
    ["is not answered", { type: "hang" }],
  ])("is proven by another command if the signal %s", async (_what, effect) => {
    const { client, control } = concierge;
    const { id, mark } = await running(() => ":");
    await control("POST", "/faults", { route: "killCommand", count: 1, effect });
    expect(await client.stop(id)).toMatchObject({ httpStatus: 200, status: "stopped" });
    await control("DELETE", "/faults");
    expect(alive(String(mark))).toEqual([]);
  });
});

async function created(control: Concierge["control"]): Promise<number> {
  return (await createStats(control)).requests;
}

async function finishedCreates(control: Concierge["control"]): Promise<number> {
  return Object.values((await createStats(control)).statuses).reduce((sum, n) => sum + n, 0);
}

async function createStats(control: Concierge["control"]) {
  const stats = (await (await control("GET", "/stats")).json()) as {
    routes: Record<string, { requests: number; statuses: Record<string, number> }>;
  };
  return stats.routes.createSandbox ?? { requests: 0, statuses: {} };
}
