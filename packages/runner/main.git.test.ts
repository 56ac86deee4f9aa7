import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runnerExit } from "@concierge/protocol";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accept, stopWhen } from "./testing/concierge.ts";
import { change, GitWorld, ownCommit } from "./testing/git-world.ts";
import { type Bundle, bundleRunner, nodeVersions, until } from "./testing/runner.ts";

let bundle: Bundle;

beforeAll(async () => {
  bundle = await bundleRunner();
});

afterAll(() => bundle[Symbol.dispose]());

describe("the clone", () => {
  test("is the agent's working directory, on a branch that starts at the base branch", async () => {
    await using world = await GitWorld.start({ "a.txt": "main\n" });
    world.server.commit("app", "release", { "b.txt": "release\n" });
    const script = "pwd; git branch --show-current; git remote get-url origin; git status --short; ls";
    await using turn = world.turn(bundle, script, { repo: { baseBranch: "release" } });
    expect(await turn.launch().exited).toBe(runnerExit.done);
    const { url } = turn.config.repo ?? {};
    expect(world.concierge.text("stdout")).toBe(`${turn.workDir}\nwork\n${url}\na.txt\nb.txt\n`);
    expect(world.concierge.posts[0]?.kind).toBe("clone");
  });

  test("starts at the remote's default branch if no base is given", async () => {
    await using world = await GitWorld.start({ "a.txt": "main\n" });
    world.server.commit("app", "release", { "b.txt": "release\n" });
    await using turn = world.turn(bundle, "ls; git rev-parse HEAD origin/HEAD");
    await turn.launch().exited;
    const main = world.server.branch("app", "main");
    expect(world.concierge.text("stdout")).toBe(`a.txt\n${main}\n${main}\n`);
  });

  test("continues the branch if the remote has it", async () => {
    await using world = await GitWorld.start({ "a.txt": "main\n" });
    const before = world.server.commit("app", "work", { "b.txt": "earlier\n" });
    await using turn = world.turn(bundle, `cat b.txt; ${change}`, { repo: { baseBranch: "main" } });
    await turn.launch().exited;
    expect(world.concierge.text("stdout")).toBe("earlier\n");
    expect(world.server.pushes).toMatchObject([{ from: before, to: world.pushed }]);
  });

  test("of an empty repository starts the branch", async () => {
    await using world = await GitWorld.start({});
    await using turn = world.turn(bundle, change);
    await turn.launch().exited;
    expect(world.concierge.end).toMatchObject({ pushed: true, commit: world.pushed });
    expect(world.server.log("app", "work")).toHaveLength(1);
  });

  test.each([
    ["the credential is wrong", { token: "not-the-token" }, {}, "Authentication failed"],
    ["the base branch does not exist", {}, { baseBranch: "nowhere" }, "the remote has no branch nowhere"],
  ])(
    "that fails ends the turn without an agent and with the reason: %s",
    async (_, credential, repo, detail) => {
      await using world = await GitWorld.start();
      const granted = { username: world.server.username, token: world.server.token, ...credential };
      world.concierge.credential = granted;
      await using turn = world.turn(bundle, "echo hello", { repo });
      expect(await turn.launch().exited).toBe(runnerExit.done);
      expect(world.concierge.end).toMatchObject({ reason: "clone_failed", exitCode: null, lastSeq: 0 });
      expect(world.concierge.end?.detail).toContain(detail);
      expect(JSON.stringify(world.concierge.posts)).not.toContain(granted.token);
    },
  );

  test("does not overwrite other files", async () => {
    await using world = await GitWorld.start();
    await using turn = world.turn(bundle, "echo hello");
    turn.touch("precious");
    await turn.launch().exited;
    const detail = `${turn.workDir} is not empty and not a clone`;
    expect(world.concierge.end).toMatchObject({ reason: "clone_failed", detail });
  });

  test("is requested again with the same nonce if the answer was lost", async () => {
    await using world = await GitWorld.start();
    world.concierge.behave = (post, nth) =>
      nth === 1 ? "lose" : nth === 2 ? { action: "wait" } : accept(post);
    await using turn = world.turn(bundle, "true");
    await turn.launch().exited;
    expect(world.concierge.end?.reason).toBe("exited");
    const bodies = world.concierge.of("clone").map((post) => post.body);
    expect(bodies).toHaveLength(3);
    expect(new Set(bodies).size).toBe(1);
  });

  test("ends at the turn's deadline", async () => {
    await using world = await GitWorld.start();
    world.server.hold("upload-pack");
    await using turn = world.turn(bundle, "echo hello", { maxDurationMs: 1_500 });
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(world.concierge.end).toMatchObject({ reason: "deadline", detail: "git did not end in time" });
    expect(turn.processes()).toEqual([]);
  });

  test("does not count as the agent's silence", async () => {
    await using world = await GitWorld.start();
    const held = world.server.hold("upload-pack");
    await using turn = world.turn(bundle, "echo hello", { inactivityMs: 1_000 });
    const { exited } = turn.launch();
    await held.reached;
    const heldMs = performance.now();
    await until("the inactivity limit has passed", () => performance.now() > heldMs + 1_100);
    held.release();
    await exited;
    expect(world.concierge.end).toMatchObject({ reason: "exited", text: "hello\n" });
  });

  test("is ended by a stop with all its processes, and the next turn clones again", async () => {
    await using world = await GitWorld.start({ "a.txt": "main\n" });
    const held = world.server.hold("upload-pack");
    await using first = world.turn(bundle, "echo hello", { timings: { beatMs: 50 } });
    const { exited } = first.launch();
    await held.reached;
    expect(first.processes().length).toBeGreaterThan(0);
    stopWhen(world.concierge, (post) => post.kind === "beat");
    expect(await exited).toBe(runnerExit.stopped);
    expect(first.processes()).toEqual([]);
    expect(world.concierge.of("beat").at(-1)?.body).toBe('{"activity":"tool"}');

    world.concierge.behave = accept;
    await using second = world.turn(bundle, "ls", { cwd: first.workDir });
    await second.launch().exited;
    expect(world.concierge.text("stdout")).toBe("a.txt\n");
  });
});

describe("a successful turn", () => {
  test.each(nodeVersions)("has its uncommitted changes committed and pushed on %s", async (_, node) => {
    await using world = await GitWorld.start({ "old.txt": "old\n" });
    const before = world.server.branch("app", "main");
    await using turn = world.turn(bundle, `${change}; rm old.txt; echo answer`, { node });
    expect(await turn.launch().exited).toBe(runnerExit.done);
    const commit = world.pushed;
    expect(world.concierge.end).toMatchObject({ reason: "exited", commit, branch: "work", pushed: true });
    expect(world.concierge.finalize).toEqual({ commit, branch: "work", exitCode: 0, text: "answer\n" });
    const identity = "Concierge <concierge@localhost>";
    expect(world.server.log("app", "work")).toMatchObject([
      { commit, author: identity, committer: identity, message: "Do the task" },
      { commit: before },
    ]);
    expect(world.server.show("app", "work", "file.txt")).toBe("more\n");
    expect(world.server.show("app", "work", "old.txt")).toBeUndefined();
    expect(world.server.pushes).toMatchObject([{ ref: "refs/heads/work", from: undefined, to: commit }]);
  });

  test("has the agent's own commits pushed unchanged", async () => {
    await using world = await GitWorld.start();
    await using turn = world.turn(bundle, ownCommit);
    await turn.launch().exited;
    expect(world.server.log("app", "work")[0]).toMatchObject({
      commit: world.pushed,
      message: "By the agent",
    });
    expect(world.concierge.end).toMatchObject({ commit: world.pushed, pushed: true });
  });

  test("requests no push if nothing has changed", async () => {
    await using world = await GitWorld.start();
    await using turn = world.turn(bundle, "git log --oneline | wc -l");
    await turn.launch().exited;
    expect(world.concierge.end).toMatchObject({ reason: "exited", text: "1\n" });
    expect(world.concierge.end).not.toHaveProperty("commit");
    expect(world.concierge.end).not.toHaveProperty("pushed");
    expect([world.concierge.finalize, world.pushed]).toEqual([undefined, undefined]);
  });

  test("reports its commit without a push if none is wanted", async () => {
    await using world = await GitWorld.start();
    await using turn = world.turn(bundle, ownCommit, { repo: { push: false } });
    await turn.launch().exited;
    const head = readFileSync(join(turn.workDir, ".git/refs/heads/work"), "utf8").trim();
    expect(world.concierge.end).toMatchObject({ commit: head, branch: "work" });
    expect(world.concierge.end).not.toHaveProperty("pushed");
    expect([world.concierge.finalize, world.pushRequests]).toEqual([undefined, 0]);
  });

  test("reports that its changes cannot be committed", async () => {
    await using world = await GitWorld.start();
    await using turn = world.turn(bundle, `${change}; touch .git/index.lock`);
    await turn.launch().exited;
    expect(world.concierge.end).toMatchObject({ reason: "runner_error", exitCode: 0 });
    expect(world.concierge.end?.detail).toContain("index.lock");
    expect(world.pushRequests).toBe(0);
  });

  test("requests the push after all its output is accepted", async () => {
    await using world = await GitWorld.start();
    let outputDown = true;
    world.concierge.behave = (post) =>
      post.kind === "output" && outputDown ? { status: 503 } : accept(post);
    await using turn = world.turn(bundle, `echo answer; ${change}`);
    const { exited } = turn.launch();
    await until("output was refused three times", () => world.concierge.of("output").length === 3);
    expect(world.concierge.of("finalize")).toEqual([]);
    outputDown = false;
    await exited;
    const kinds = world.concierge.posts.map((post) => post.kind).filter((kind) => kind !== "beat");
    expect(kinds.slice(-3)).toEqual(["output", "finalize", "end"]);
  });
});

describe("the next turn in the same clone", () => {
  test("continues with the existing files, pushes only new commits, and pushes nothing without a change", async () => {
    await using world = await GitWorld.start();
    await using first = world.turn(bundle, `${ownCommit}; echo ignored > .git/info/exclude`);
    await first.launch().exited;
    const pushed = world.pushed;
    const fetches = () =>
      world.server.requests.filter(({ path }) => path.endsWith("/git-upload-pack")).length;
    const before = fetches();

    const { taskId, cwd } = first.config;
    await using idle = world.turn(bundle, "cat file.txt", { taskId, turn: 2, cwd });
    await idle.launch().exited;
    expect(world.concierge.end).toMatchObject({ reason: "exited", text: "more\n" });
    expect(world.concierge.end).not.toHaveProperty("commit");

    await using third = world.turn(bundle, "echo again >> file.txt", { taskId, turn: 3, cwd });
    await third.launch().exited;
    expect(world.concierge.end).toMatchObject({ commit: world.pushed, pushed: true });
    expect(world.server.pushes).toMatchObject([{ to: pushed }, { from: pushed, to: world.pushed }]);
    expect(fetches()).toBe(before);
    expect(world.concierge.of("clone")).toHaveLength(3);
  });

  test("keeps the uncommitted changes of a failed turn, even on another branch", async () => {
    await using world = await GitWorld.start();
    await using first = world.turn(bundle, `${change}; echo changed > README.md; exit 3`);
    await first.launch().exited;
    await using second = world.turn(bundle, "git branch --show-current; cat file.txt README.md", {
      cwd: first.workDir,
      repo: { branch: "other" },
    });
    await second.launch().exited;
    expect(world.concierge.end).toMatchObject({
      text: "other\nmore\nchanged\n",
      branch: "other",
      pushed: true,
    });
    expect(world.server.show("app", "other", "file.txt")).toBe("more\n");
    expect(world.pushed).toBeUndefined();
  });

  test("is refused if the clone is of another repository", async () => {
    await using world = await GitWorld.start();
    const { url } = world.server.createRepo("other");
    await using first = world.turn(bundle, "true");
    await first.launch().exited;
    await using second = world.turn(bundle, "true", { cwd: first.workDir, repo: { url } });
    await second.launch().exited;
    const detail = `${first.workDir} is a clone of another repository`;
    expect(world.concierge.end).toMatchObject({ reason: "clone_failed", detail });
  });
});
