import { Sandbox } from "@vercel/sandbox";
import { localFetch } from "vercel-sandbox-local";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { alive } from "../testing/processes.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

let concierge: Concierge;
beforeAll(async () => {
  concierge = await startConcierge({ reapEveryMs: 1000 });
});
afterAll(async () => await concierge[Symbol.asyncDispose]());

/** Each script marks its processes with a number that nothing else on the machine has. */
let marks = 600_000_000 + process.pid * 1000;
const limits = { inactivityMs: 3000 };
/** By then the loss must be noticed: the inactivity time, and what a busy machine takes. */
const noticedMs = 30_000;

/** Everything whose command line names the runner, as `pkill -f` finds it, including the shell that launched it. */
const killAll =
  'for p in /proc/[0-9]*; do grep -q "runner.mj[s]" $p/cmdline && kill -9 $(basename $p); done 2>/dev/null';

async function running(trouble: (mark: number) => string) {
  const { client } = concierge;
  const mark = ++marks;
  const { id } = await client.start(`echo kept > file; ${trouble(mark)}; sleep ${mark}`, { limits });
  const { sandbox } = await client.until(id, (task) => task.status === "running" && task.sandbox !== null);
  await expect.poll(() => alive(String(mark)), { timeout: 10_000 }).not.toEqual([]);
  return { id, mark: String(mark), name: sandbox?.name ?? "" };
}

async function expectContinued(id: string, sandbox: Record<string, unknown>): Promise<void> {
  const { client } = concierge;
  await client.continue(id, "cat file 2>/dev/null || echo nothing");
  expect(await client.ended(id, 60_000)).toMatchObject({ status: "succeeded", turn: 2, sandbox });
}

describe("a runner that", () => {
  it.each([
    ["was killed by its agent", () => "kill -9 $PPID", "agent_failed"],
    ["was killed with all that belongs to it", () => killAll, "agent_failed"],
    [
      "was killed, and left a daemon behind",
      (m: number) => `setsid sleep ${m} </dev/null >/dev/null 2>&1 & kill -9 $PPID`,
      "agent_failed",
    ],
    ["was frozen", () => "kill -STOP $PPID", "inactivity_timeout"],
  ])("%s is noticed; nothing of the turn is left, and the sandbox is reused", async (_how, trouble, code) => {
    const { id, mark, name } = await running(trouble);
    const task = await concierge.client.ended(id, noticedMs);
    expect(task).toMatchObject({ status: "failed", error: { code } });
    expect(alive(mark)).toEqual([]);
    await expectContinued(id, { name, origin: "reused" });
  });
});

describe("a sandbox that is lost under its turn is noticed", () => {
  it("after a deletion: the next turn gets another, and the user is told what was lost", async () => {
    const { client, provider } = concierge;
    const { id, mark, name } = await running(() => ":");
    await provider.remove(name);
    expect(await client.ended(id, noticedMs)).toMatchObject({ error: { code: "sandbox_lost" } });
    expect(alive(mark)).toEqual([]);
    await expectContinued(id, { origin: "cold" });
    expect((await client.get(id)).notices).toMatchObject([{ code: "context_lost" }]);
  });

  it("after a stop: the next turn resumes it with its files", async () => {
    const { client } = concierge;
    const { id, mark, name } = await running(() => ":");
    const common = { token: concierge.sandboxToken, teamId: "local", projectId: "local" };
    const fetch = localFetch(concierge.endpoints.sandbox ?? "");
    const sandbox = await Sandbox.get({ ...common, fetch, name, resume: false });
    await sandbox.currentSession().stop();
    expect(await client.ended(id, noticedMs)).toMatchObject({ error: { code: "sandbox_lost" } });
    expect(alive(mark)).toEqual([]);
    await expectContinued(id, { name, origin: "resumed" });
    expect((await client.get(id)).notices).toEqual([]);
  });
});
