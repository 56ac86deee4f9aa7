import { afterAll, beforeAll, expect, it } from "vitest";
import { type GitServer, startGitServer } from "../../testing/git-server.ts";
import { type Concierge, startConcierge } from "../../testing/stack.ts";
import { createUsers, each, expectPassesFinished, startOthers } from "./load.ts";

let concierge: Concierge;
/** One remote for Alice, one for everybody else. */
let hers: GitServer;
let theirs: GitServer;
beforeAll(async () => {
  [hers, theirs] = await Promise.all([startGitServer(), startGitServer()]);
  // Before anything runs: creating them blocks the event loop, and connections would be closed meanwhile.
  for (let i = 0; i < 10; i++) {
    hers.createRepo(`alice-${i}`);
    for (const user of ["bob", "carol"]) theirs.createRepo(`${user}-${i}`);
  }
  concierge = await startConcierge({ reapEveryMs: 500 });
});
afterAll(async () => {
  await concierge[Symbol.asyncDispose]();
  await Promise.all([hers.close(), theirs.close()]);
});

/** A retry of the test has its own sessions: those of the first try may still be busy. */
let tries = 0;

const broken = { how: "status", status: 500 } as const;

it("a remote that answers 500 for one user: others' pushes arrive, and hers end with what is known", async () => {
  tries += 1;
  hers.mend();
  const pushedBefore = theirs.pushes.length;
  const sessionOf = (i: number) => `alice-${tries}-${i}`;
  const users = await createUsers(concierge);
  const { alice } = users;
  const aRepo = (server: GitServer, name: string) => ({
    repo: { url: `${server.url}/${name}.git`, username: server.username, token: server.token },
  });
  // Alice's agents wait until the remote fails at the push, not at the clone.
  const script = "echo cloned; echo work > work.txt; until [ -e ../go ]; do sleep 0.1; done";
  const pushing = await each(5, (i) =>
    alice.start(script, { sessionKey: sessionOf(i), ...aRepo(hers, `alice-${i}`) }),
  );
  for (const { id } of pushing)
    await expect.poll(() => alice.output(id).then(String), { timeout: 60_000 }).toBe("cloned\n");
  for (const on of ["info/refs", "upload-pack", "receive-pack"] as const)
    hers.fail({ on, ...broken, times: 1_000_000 });
  await each(5, (i) =>
    alice.json("POST", `/v1/sessions/${sessionOf(i)}/exec`, { command: "touch", args: ["go"] }),
  );
  const cloning = await each(5, (i) => alice.start("echo never", aRepo(hers, `alice-${i + 5}`)));
  const othersEnded = await startOthers(users, (user, i) => aRepo(theirs, `${user}-${i}`));

  for (const { result } of await othersEnded()) expect(result).toMatchObject({ pushed: true });
  expect(theirs.pushes).toHaveLength(pushedBefore + 20);
  for (const { id } of cloning)
    expect(await alice.ended(id)).toMatchObject({ status: "failed", error: { code: "provision_failed" } });
  // While the remote does not answer, the outcome of a push is unknown: nothing is claimed, nothing is sent again.
  for (const { id } of pushing) await alice.until(id, ({ status }) => status === "finalizing");

  hers.mend();
  for (const { id } of pushing) {
    const task = await alice.ended(id, 90_000);
    expect(task.error?.code).toMatch(/^(push_failed|finalize_timeout)$/);
    expect(task.result).toMatchObject({ pushed: false, commit: expect.any(String) });
  }
  expect(hers.pushes).toEqual([]);
  expectPassesFinished(concierge, { atLeast: 5 });
}, 180_000);
