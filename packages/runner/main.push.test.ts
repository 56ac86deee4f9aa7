import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { runnerExit } from "@concierge/protocol";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accept, stopWhen } from "./testing/concierge.ts";
import { change, everyCommandLine, everyFile, GitWorld, ownCommit } from "./testing/git-world.ts";
import { type Bundle, bundleRunner, until } from "./testing/runner.ts";

let bundle: Bundle;

beforeAll(async () => {
  bundle = await bundleRunner();
});

afterAll(() => bundle[Symbol.dispose]());

describe("there is no push", () => {
  test.each(["exit 3", "kill -KILL $$"])("if the agent failed: %s", async (end) => {
    await using world = await GitWorld.start();
    await using turn = world.turn(bundle, `${ownCommit}; ${end}`);
    await turn.launch().exited;
    expect(world.concierge.end?.reason).toBe("exited");
    expect(world.concierge.end).not.toHaveProperty("commit");
    expect([world.concierge.finalize, world.pushRequests]).toEqual([undefined, 0]);
  });

  test("if a limit ended the agent", async () => {
    await using world = await GitWorld.start();
    const script = `trap 'exit 0' TERM; ${ownCommit}; while :; do sleep 0.05; done`;
    await using turn = world.turn(bundle, script, { inactivityMs: 1_000 });
    await turn.launch().exited;
    expect(world.concierge.end).toMatchObject({ reason: "inactivity", exitCode: 0 });
    expect([world.concierge.finalize, world.pushRequests]).toEqual([undefined, 0]);
  });

  test("if Concierge says stop instead of granting it", async () => {
    await using world = await GitWorld.start();
    stopWhen(world.concierge, (post) => post.kind === "finalize");
    await using turn = world.turn(bundle, ownCommit);
    expect(await turn.launch().exited).toBe(runnerExit.stopped);
    expect([world.concierge.end, world.pushRequests, world.pushed]).toEqual([undefined, 0, undefined]);
  });

  test.each([
    ["cannot be reached", "drop"],
    ["does not answer", "hang"],
    ["answers 500", { status: 500 }],
  ] as const)("if Concierge %s", async (_, behaviour) => {
    await using world = await GitWorld.start();
    world.concierge.behave = (post) => (post.kind === "finalize" ? behaviour : accept(post));
    await using turn = world.turn(bundle, ownCommit, {
      maxDurationMs: 3_000,
      timings: { giveUpMs: 100, requestTimeoutMs: 500 },
    });
    expect(await turn.launch().exited).toBe(runnerExit.gaveUp);
    expect(world.concierge.of("finalize").length).toBeGreaterThan(0);
    expect([world.concierge.end, world.pushRequests]).toEqual([undefined, 0]);
  });

  test.each(["stop", "SIGTERM"])("process left after a %s during the push", async (how) => {
    await using world = await GitWorld.start();
    const held = world.server.hold("receive-pack");
    await using turn = world.turn(bundle, ownCommit, { timings: { beatMs: 50 } });
    const runner = turn.launch();
    await held.reached;
    expect(turn.processes().length).toBeGreaterThan(0);
    if (how === "stop") stopWhen(world.concierge, (post) => post.kind === "beat");
    else runner.signal("SIGTERM");
    expect(await runner.exited).toBe(how === "stop" ? runnerExit.stopped : runnerExit.signalled);
    expect(turn.processes()).toEqual([]);
    await held.abandoned;
    expect([world.concierge.end, world.pushed, world.pushRequests]).toEqual([undefined, undefined, 1]);
  });
});

describe("a push", () => {
  test("is made once if the answer to its request was lost", async () => {
    await using world = await GitWorld.start();
    let requests = 0;
    world.concierge.behave = (post) => (post.kind === "finalize" && ++requests === 1 ? "lose" : accept(post));
    await using turn = world.turn(bundle, ownCommit);
    await turn.launch().exited;
    expect(new Set(world.concierge.of("finalize").map((post) => post.body)).size).toBe(1);
    expect([requests, world.pushRequests, world.concierge.end?.pushed]).toEqual([2, 1, true]);
  });

  test("larger than one request arrives complete", async () => {
    await using world = await GitWorld.start();
    await using turn = world.turn(bundle, "head -c 3000000 /dev/urandom > big; sha256sum big > sum");
    await turn.launch().exited;
    expect(world.concierge.end).toMatchObject({ pushed: true, commit: world.pushed });
    expect(world.server.show("app", "work", "sum")).toBe(turn.read("sum"));
    expect(world.server.pushes).toHaveLength(1);
  });

  test("whose answer was lost is confirmed with the remote and not repeated", async () => {
    await using world = await GitWorld.start();
    world.server.fail({ on: "receive-pack", how: "drop-after" });
    await using turn = world.turn(bundle, ownCommit);
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(world.concierge.end).toMatchObject({ pushed: true, commit: world.pushed });
    expect([world.server.pushes.length, world.pushRequests]).toEqual([1, 1]);
  });

  test.each([
    ["never arrived", { on: "receive-pack", how: "drop-before" }],
    ["was answered with 503", { on: "receive-pack", how: "status", status: 503 }],
  ] as const)("that %s is looked up on the remote and not repeated", async (_, fault) => {
    await using world = await GitWorld.start();
    world.server.fail(fault);
    await using turn = world.turn(bundle, ownCommit);
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(world.concierge.end).toMatchObject({ pushed: false, branch: "work" });
    expect([world.pushed, world.pushRequests]).toEqual([undefined, 1]);
  });

  test("with an unknown outcome is not reported", async () => {
    await using world = await GitWorld.start();
    world.concierge.behave = (post) => {
      if (post.kind === "finalize") {
        world.server.fail({ on: "info/refs", how: "status", status: 503, times: 1_000 });
      }
      return accept(post);
    };
    await using turn = world.turn(bundle, ownCommit, { timings: { finalizeMs: 1_000 } });
    expect(await turn.launch().exited).toBe(runnerExit.pushUnknown);
    expect([world.concierge.end, world.pushRequests]).toEqual([undefined, 0]);
  });

  test("that takes too long is ended and looked up on the remote", async () => {
    await using world = await GitWorld.start();
    world.server.hold("receive-pack");
    await using turn = world.turn(bundle, ownCommit, { timings: { pushMs: 500 } });
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(world.concierge.end).toMatchObject({ pushed: false, detail: "git did not end in time" });
    expect(turn.processes()).toEqual([]);
  });

  test("is refused if the branch has moved, and overwrites nothing", async () => {
    await using world = await GitWorld.start();
    let theirs = "";
    world.concierge.behave = (post) => {
      if (post.kind === "finalize") theirs = world.server.commit("app", "work", { "theirs.txt": "theirs\n" });
      return accept(post);
    };
    await using turn = world.turn(bundle, ownCommit);
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(world.concierge.end).toMatchObject({ reason: "exited", exitCode: 0, pushed: false });
    expect(world.concierge.end?.detail).toContain("[rejected] (fetch first)");
    expect([world.pushed, world.server.pushes]).toEqual([theirs, []]);
  });

  test("is not limited by the deadline or the inactivity limit once it is granted", async () => {
    await using world = await GitWorld.start();
    const held = world.server.hold("receive-pack");
    const limits = { maxDurationMs: 3_000, inactivityMs: 1_000, timings: { giveUpMs: 1_000 } };
    await using turn = world.turn(bundle, ownCommit, limits);
    const startedMs = performance.now();
    const { exited } = turn.launch();
    await held.reached;
    await until("all limits have passed", () => performance.now() > startedMs + 5_000);
    held.release();
    expect(await exited).toBe(runnerExit.done);
    expect(world.concierge.end).toMatchObject({ reason: "exited", pushed: true, commit: world.pushed });
  });
});

describe("the credential", () => {
  test("is in no process arguments, file, output or post", async () => {
    await using world = await GitWorld.start();
    const { token, username } = world.server;
    const atClone = world.server.hold("upload-pack");
    const atPush = world.server.hold("receive-pack");
    await using turn = world.turn(bundle, `env; git config --list; ${change}`);
    const { exited, stderr } = turn.launch();
    const visible: string[] = [];
    for (const held of [atClone, atPush]) {
      await held.reached;
      expect(turn.processes().length).toBeGreaterThan(0);
      visible.push(everyCommandLine(), everyFile(turn.root));
      held.release();
    }
    await exited;
    expect(world.concierge.end?.pushed).toBe(true);
    visible.push(everyFile(turn.root), world.concierge.text("stdout"), stderr());
    visible.push(JSON.stringify(world.concierge.posts));
    for (const secret of [token, Buffer.from(`${username}:${token}`).toString("base64")]) {
      for (const text of visible) expect(text).not.toContain(secret);
    }
    expect(visible[0]).toContain("CONCIERGE_GIT_TOKEN");
  });

  test("is masked in the output, although it was granted after the launch", async () => {
    await using world = await GitWorld.start();
    const { token } = world.server;
    await using turn = world.turn(bundle, `printf ${token.slice(0, 8)}; echo ${token.slice(8)}`);
    await turn.launch().exited;
    expect(world.concierge.text("stdout")).toBe("***\n");
    expect(world.concierge.end?.text).toBe("***\n");
  });

  test("is hidden from programs that the agent planted in the clone, and they do not affect the push", async () => {
    await using world = await GitWorld.start();
    await using turn = world.turn(bundle, plantScript, { env: { EVIL: "" } });
    turn.config.env.EVIL = join(turn.root, "evil");
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(world.concierge.end).toMatchObject({ pushed: true, commit: world.pushed });
    expect(world.server.show("app", "work", "file.txt")).toBe("more\n");
    expect(existsSync(join(turn.root, "evil.ran"))).toBe(false);
    // A clean filter may belong to the repository, so git runs it, but without secrets.
    const filtered = readFileSync(join(turn.root, "evil.filtered"), "utf8");
    expect(filtered).toContain("CONCIERGE_TASK=");
    expect(filtered).not.toContain(world.server.token);
    expect(filtered).not.toContain(turn.config.token);
  });
});

/** Every way to make git run a program through the clone. */
const plantScript = `
cat > "$EVIL" <<END
#!/bin/sh
env >> '$EVIL.ran'
END
chmod +x "$EVIL"
mkdir -p hooks .git/hooks
for hook in pre-commit prepare-commit-msg commit-msg post-commit pre-push post-index-change reference-transaction; do
  cp "$EVIL" .git/hooks/$hook
  cp "$EVIL" hooks/$hook
done
set -e
${change}
echo '* filter=planted' > .gitattributes
git config filter.planted.clean "env >> '$EVIL.filtered'; cat"
git config core.fsmonitor "$EVIL"
git config credential.helper "$EVIL"
git config core.askPass "$EVIL"
git config core.editor "$EVIL"
git config core.sshCommand "$EVIL"
git config gpg.program "$EVIL"
git config commit.gpgSign true
git config push.gpgSign true
git config http.proxy http://127.0.0.1:1
git config url.http://127.0.0.1:1/.insteadOf http://
git config remote.origin.pushurl http://127.0.0.1:1/evil.git
git config core.hooksPath hooks
`;
