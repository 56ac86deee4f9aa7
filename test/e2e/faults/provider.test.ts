import { sessionId } from "@concierge/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { topology } from "../../../infra/topology.ts";
import { alive } from "../../testing/processes.ts";
import { type Concierge, startConcierge } from "../../testing/stack.ts";
import {
  createUsers,
  each,
  expectPassesFinished,
  expectUsable,
  passes,
  startOthers,
  withTimeouts,
} from "./load.ts";

let concierge: Concierge;
beforeAll(async () => {
  // A hanging call is given up five seconds before its function's time limit.
  const hasty = withTimeouts(topology, { Worker: 20_000, Timer: 15_000, Reaper: 20_000 });
  concierge = await startConcierge({ topology: hasty, reapEveryMs: 500 });
});
afterAll(async () => await concierge[Symbol.asyncDispose]());

/** Alice's processes are marked with numbers that nothing else on the machine has. */
const marked = `8${process.pid}000`;

it("a provider that never answers about one user's sandboxes: others' tasks run, and hers end once it answers", async () => {
  const { control } = concierge;
  const users = await createUsers(concierge);
  const { alice } = users;
  const sessionKey = (i: number) => `alice-${i}`;
  // Their runners are frozen: otherwise they would kill their agents themselves when told to.
  const script = (i: number) => `kill -STOP $PPID; sleep ${marked}${i}`;
  const start = (from: number, limits: Record<string, number>) =>
    each(5, (i) => alice.start(script(i), { sessionKey: sessionKey(from + i), limits }));

  const running = await start(0, { maxDurationMs: 15_000 });
  for (const { id } of running) await alice.until(id, ({ status }) => status === "running");
  await expect.poll(() => alive(marked).length, { timeout: 10_000 }).toBeGreaterThanOrEqual(running.length);
  const hers = Array.from({ length: 10 }, (_, i) => sessionId("alice", sessionKey(i))).join("|");
  await control("POST", "/faults", { sandbox: `-(${hers})-`, count: 1_000_000, effect: { type: "hang" } });
  const waiting = await start(5, { maxDurationMs: 8_000 });
  const othersEnded = await startOthers(users);
  const stopped = running[0]?.id ?? "";
  const [asked] = await Promise.all([alice.stop(stopped), othersEnded()]);
  expect(asked).toMatchObject({ httpStatus: 202, status: "stopping" });
  // A turn that was never launched ends, because its worker is fenced. A turn that may still run does not.
  for (const { id } of waiting)
    expect(await alice.ended(id)).toMatchObject({ status: "timed_out", sandbox: null });
  for (const { id } of running) await alice.until(id, ({ status }) => status === "stopping");
  const passesBefore = passes(concierge).length;
  await expect.poll(() => passes(concierge).length, { timeout: 30_000 }).toBeGreaterThan(passesBefore + 1);
  expect(alive(marked).length).toBeGreaterThanOrEqual(running.length);
  for (const { id } of running) expect((await alice.get(id)).status).toBe("stopping");

  await control("DELETE", "/faults");
  for (const { id } of running) {
    const code = id === stopped ? "stopped_by_user" : "deadline_exceeded";
    expect(await alice.ended(id, 60_000)).toMatchObject({ error: { code } });
  }
  expect(alive(marked)).toEqual([]);
  expectPassesFinished(concierge, { atLeast: 5 });
  await expectUsable(
    alice,
    [...running, ...waiting].map(({ id }) => id),
  );
}, 180_000);
