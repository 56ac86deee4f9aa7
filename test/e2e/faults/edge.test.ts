import { afterAll, beforeAll, expect, it } from "vitest";
import { firewall, startHostileEdge } from "../../testing/hostile-edge.ts";
import { alive } from "../../testing/processes.ts";
import { type Concierge, startConcierge } from "../../testing/stack.ts";
import { createUsers, each, expectPassesFinished, expectUsable, startOthers } from "./load.ts";

let concierge: Concierge;
let edge: Awaited<ReturnType<typeof startHostileEdge>>;
beforeAll(async () => {
  edge = await startHostileEdge(firewall);
  concierge = await startConcierge({ callbackUrl: edge.url, reapEveryMs: 500 });
  edge.leadTo(concierge.url);
});
afterAll(async () => {
  await concierge[Symbol.asyncDispose]();
  await edge[Symbol.asyncDispose]();
});

/** Alice's processes are marked with numbers that nothing else on the machine has. */
const marked = `7${process.pid}000`;

it("an edge that refuses one user's runners: others' tasks run, hers work on, and all end in time", async () => {
  const users = await createUsers(concierge);
  const { alice } = users;
  const waits =
    "for n in 1 2 3; do echo line $n; sleep 0.2; done; until [ -e go ]; do sleep 0.1; done; echo end";
  edge.setHostile(true);
  const patient = await each(5, (i) => alice.start(waits, { sessionKey: `patient-${i}` }));
  const limits = { maxDurationMs: 10_000 };
  const late = await each(5, (i) => alice.start(`echo started; sleep ${marked}${i}`, { limits }));
  const ids = new Set([...patient, ...late].map(({ id }) => id));
  edge.setHostile((taskId) => ids.has(taskId));
  const othersEnded = await startOthers(users);

  await othersEnded();
  expect(edge.refused()).toBeGreaterThan(10);
  // A turn past its deadline ends, although nothing was ever heard of it.
  for (const { id } of late) {
    expect(await alice.ended(id)).toMatchObject({
      status: "timed_out",
      error: { code: "deadline_exceeded" },
    });
    expect((await alice.output(id)).length).toBe(0);
  }
  expect(alive(marked)).toEqual([]);
  for (const { id } of patient) expect((await alice.get(id)).status).toBe("running");

  edge.setHostile(false);
  await each(5, (i) =>
    alice.json("POST", `/v1/sessions/patient-${i}/exec`, { command: "touch", args: ["go"] }),
  );
  for (const { id } of patient) {
    expect(await alice.ended(id)).toMatchObject({ status: "succeeded", error: null });
    expect((await alice.output(id)).toString()).toBe("line 1\nline 2\nline 3\nend\n");
  }
  expectPassesFinished(concierge, { atLeast: 5 });
  await expectUsable(
    alice,
    late.map(({ id }) => id),
  );
}, 180_000);
