import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type GitServer, startGitServer } from "../testing/git-server.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

let concierge: Concierge;
let git: GitServer;
beforeAll(async () => {
  [concierge, git] = await Promise.all([
    startConcierge({ apiProcesses: 2, reapEveryMs: 1000 }),
    startGitServer(),
  ]);
});
afterAll(async () => {
  await concierge[Symbol.asyncDispose]();
  await git.close();
});

/** Each test has its own repository with one file. */
let repos = 0;
function aRepo() {
  const name = `repo-${++repos}`;
  const { url } = git.createRepo(name, { files: { "README.md": "hello\n" } });
  return { name, repo: { url, branch: "work", username: git.username, token: git.token } };
}

describe("the six scenarios", () => {
  it("1. a task that ends normally pushes its changes, and the result names the commit", async () => {
    const { client } = concierge;
    const { name, repo } = aRepo();
    const { id } = await client.start("git branch --show-current; echo more >> README.md", { repo });
    const task = await client.ended(id);
    expect(task).toMatchObject({
      status: "succeeded",
      error: null,
      result: { branch: "work", pushed: true, exitCode: 0 },
    });
    expect(task.phases.map(({ status }) => status)).toEqual([
      "queued",
      "provisioning",
      "running",
      "finalizing",
      "succeeded",
    ]);
    expect((await client.output(id)).toString()).toBe("work\n");
    expect(git.branch(name, "work")).toBe(task.result?.commit);
    expect(git.show(name, "work", "README.md")).toBe("hello\nmore\n");
    expect(git.pushes.filter((push) => push.repo === name)).toHaveLength(1);
  });

  it("2. a stopped task pushes nothing, not even its commits", async () => {
    const { client } = concierge;
    const { name, repo } = aRepo();
    const { id } = await client.start("echo x > x; git add x; git commit -qm x; echo committed; sleep 1000", {
      repo,
    });
    await expect
      .poll(async () => String(await client.output(id)), { timeout: 20_000 })
      .toContain("committed");
    expect(await client.stop(id)).toMatchObject({ httpStatus: 200, status: "stopped" });
    expect(git.branch(name, "work")).toBeUndefined();
    expect(git.pushes.filter((push) => push.repo === name)).toEqual([]);
  });

  it("3. a task past its deadline is dead and pushes nothing", async () => {
    const { client } = concierge;
    const { name, repo } = aRepo();
    const { id } = await client.start("echo x > x; sleep 1000", { repo, limits: { maxDurationMs: 4000 } });
    expect(await client.ended(id)).toMatchObject({
      status: "timed_out",
      error: { code: "deadline_exceeded" },
    });
    expect(git.pushes.filter((push) => push.repo === name)).toEqual([]);
  });

  it("4. a continued task reuses sandbox and clone, and pushes again", async () => {
    const { client } = concierge;
    const { name, repo } = aRepo();
    const { id } = await client.start("echo one > one; echo untracked > /tmp/note", {
      repo,
      keepAlive: true,
    });
    const first = await client.ended(id);
    const { username, token } = repo;
    await client.continue(id, "cat /tmp/note one; echo two > two", { repo: { username, token } });
    const second = await client.ended(id);
    expect(second).toMatchObject({
      status: "succeeded",
      turn: 2,
      sandbox: { origin: "reused" },
      result: { pushed: true },
    });
    expect(String(await client.output(id))).toBe("untracked\none\n");
    expect(git.log(name, "work").map(({ commit }) => commit)).toEqual(
      expect.arrayContaining([second.result?.commit, first.result?.commit]),
    );
  });

  it("5. a task whose kept sandbox expired gets a new one without a reinstall loop", async () => {
    const { client, provider } = concierge;
    const { id } = await client.start("echo one");
    const first = await client.ended(id);
    await provider.remove(first.sandbox?.name ?? "");
    await client.continue(id, "echo two");
    const second = await client.ended(id);
    expect(second).toMatchObject({ status: "succeeded", sandbox: { origin: "cold", epoch: 2 } });
    expect(second.phases.filter(({ turn, status }) => turn === 2 && status === "provisioning")).toHaveLength(
      1,
    );
  });

  it("6. a stalled task ends by inactivity and pushes nothing", async () => {
    const { client } = concierge;
    const { name, repo } = aRepo();
    const { id } = await client.start("echo x > x; echo begun; sleep 1000", {
      repo,
      limits: { inactivityMs: 2000 },
    });
    expect(await client.ended(id)).toMatchObject({ status: "failed", error: { code: "inactivity_timeout" } });
    expect(git.pushes.filter((push) => push.repo === name)).toEqual([]);
  });
});

describe("a push", () => {
  it("does not happen without changes", async () => {
    const { client } = concierge;
    const { name, repo } = aRepo();
    const { id } = await client.start("cat README.md", { repo });
    const task = await client.ended(id);
    expect(task).toMatchObject({ status: "succeeded", result: { pushed: false, commit: null } });
    expect(git.pushes.filter((push) => push.repo === name)).toEqual([]);
  });

  it("does not happen after the agent failed", async () => {
    const { client } = concierge;
    const { name, repo } = aRepo();
    const { id } = await client.start("echo x > x; exit 3", { repo });
    expect(await client.ended(id)).toMatchObject({ status: "failed", error: { code: "agent_failed" } });
    expect(git.pushes.filter((push) => push.repo === name)).toEqual([]);
  });

  it("is looked up, not repeated, if its response was lost", async () => {
    const { client } = concierge;
    const { name, repo } = aRepo();
    git.fail({ on: "receive-pack", how: "drop-after" });
    const { id } = await client.start("echo x > x", { repo });
    expect(await client.ended(id, 90_000)).toMatchObject({ status: "succeeded", result: { pushed: true } });
    expect(git.pushes.filter((push) => push.repo === name)).toHaveLength(1);
  });

  it("cannot be stopped while it is under way: 409, and then it arrives", async () => {
    const { client } = concierge;
    const { name, repo } = aRepo();
    const hold = git.hold("receive-pack");
    const { id } = await client.start("echo x > x", { repo });
    await hold.reached;
    const answer = await client.request("POST", `/v1/tasks/${id}/stop`);
    expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([409, "finalizing"]);
    hold.release();
    expect(await client.ended(id)).toMatchObject({ status: "succeeded", result: { pushed: true } });
    expect(git.pushes.filter((push) => push.repo === name)).toHaveLength(1);
  });

  it("needs a clone: a wrong credential is provision_failed and is never shown", async () => {
    const { client, log } = concierge;
    const { repo } = aRepo();
    const token = "wrong-token-0123456789";
    const { id } = await client.start("true", { repo: { ...repo, token } });
    const task = await client.ended(id);
    expect(task).toMatchObject({ status: "failed", error: { code: "provision_failed" } });
    expect(
      JSON.stringify([task, await client.events(id), String(await client.output(id)), log]),
    ).not.toContain(token);
  });
});
