import { Sandbox, Snapshot } from "@vercel/sandbox";
import { describe, expect, test } from "vitest";
import { eventually, localTest, openService, refusedWith, type Service, sh } from "./testing/api.ts";

describe("stopping and resuming", () => {
  test("a persistent sandbox resumes with its files in a new session when it is used", async () => {
    await using service = await openService();
    const sandbox = await service.create();
    const before = sandbox.currentSession().sessionId;
    await sh(
      sandbox,
      "echo kept > note; echo home > ~/note; mkdir -p deep/er; ln -s note link; chmod 700 note",
    );
    const { snapshot } = await sandbox.stop();
    expect(snapshot).toMatchObject({ status: "created", sourceSessionId: before });
    expect(await sh(sandbox, "cat link ~/note; stat -c %a note; ls -d deep/er")).toBe(
      "kept\nhome\n700\ndeep/er",
    );
    expect(sandbox.currentSession().sessionId).not.toBe(before);
    const sessions = await (await sandbox.listSessions({ sortOrder: "asc" })).toArray();
    expect(sessions.map(({ status }) => status)).toEqual(["stopped", "running"]);
  });

  test("concurrent uses of a stopped sandbox start one session", async () => {
    await using service = await openService();
    const sandbox = await service.create();
    await sandbox.stop();
    const others = await Promise.all(
      Array.from({ length: 5 }, () => Sandbox.get({ ...service.credentials, name: sandbox.name })),
    );
    await Promise.all(others.map((other) => other.runCommand("true")));
    expect(new Set(others.map((other) => other.currentSession().sessionId)).size).toBe(1);
  });

  test("a request to a stopped session is a 410 and does not resume it", async () => {
    await using service = await openService();
    const sandbox = await service.create();
    const session = sandbox.currentSession();
    const command = await session.runCommand({ cmd: "sleep", args: ["1000"], detached: true });
    await session.stop();
    const stopped = { status: 410, code: "sandbox_stopped" };
    expect(await refusedWith(session.runCommand("true"))).toEqual(stopped);
    expect(await refusedWith(session.writeFiles([{ path: "a", content: "a" }]))).toEqual(stopped);
    expect((await refusedWith(session.readFile({ path: "a" }))).status).toBe(410);
    expect(await refusedWith(session.extendTimeout(1_000))).toEqual(stopped);
    expect(await refusedWith(command.kill())).toEqual(stopped);
    expect(await refusedWith(session.getCommand(command.cmdId))).toEqual(stopped);
    expect((await Sandbox.get({ ...service.credentials, name: sandbox.name })).status).toBe("stopped");
  });

  test("a sandbox that is not persistent does not resume", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const { snapshot } = await sandbox.stop();
    expect(snapshot).toBeUndefined();
    expect((await refusedWith(sandbox.runCommand("true"))).status).toBe(410);
  });

  test("stopping twice has no further effect", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const session = sandbox.currentSession();
    const [first, second] = await Promise.all([session.stop(), session.stop()]);
    expect([first.session.status, second.session.status]).toEqual(["stopped", "stopped"]);
  });

  localTest("it sets a latency")(
    "a stopping session answers 422 and the SDK waits for the next one",
    async () => {
      await using service = await openService();
      const sandbox = await service.create();
      const session = sandbox.currentSession();
      await service.latency({ stopMs: 300 });
      const stopping = Sandbox.get({ ...service.credentials, name: sandbox.name }).then((other) =>
        other.stop(),
      );
      const code = await eventually(async () => {
        const attempt = await session.runCommand("true").then(
          () => undefined,
          (error: { json?: { error: { code: string } } }) => error.json?.error.code,
        );
        return attempt;
      });
      expect(code).toBe("sandbox_stopping");
      expect(await sh(sandbox, "echo again")).toBe("again");
      await stopping;
      expect(sandbox.currentSession().sessionId).not.toBe(session.sessionId);
    },
  );

  for (const [doing, end] of [
    ["stopping", (sandbox: Sandbox) => sandbox.currentSession().stop()],
    ["snapshotting", (sandbox: Sandbox) => sandbox.currentSession().snapshot()],
  ] as const) {
    localTest("it sets a latency")(`a session reports ${doing} and then stopped`, async () => {
      await using service = await openService();
      const sandbox = await service.create();
      await service.latency({ stopMs: 300 });
      const ending = end(sandbox);
      await eventually(async () => (await statusOf(service, sandbox)) === doing);
      await ending;
      expect(sandbox.currentSession().status).toBe("stopped");
      expect(await statusOf(service, sandbox)).toBe("stopped");
    });
  }
});

const timeoutTest = localTest("it needs a timeout of less than a second");

describe("a timeout", () => {
  timeoutTest("ends a session, and an extension delays it", async () => {
    await using service = await openService({ limits: { minTimeoutMs: 1 } });
    const brief = await service.create({ timeout: 200, persistent: false });
    const longer = await service.create({ timeout: 200, persistent: false });
    await longer.extendTimeout(60_000);
    expect(longer.currentSession().timeout).toBe(60_200);
    await stoppedByItself(service, brief);
    expect(await statusOf(service, longer)).toBe("running");
  });

  timeoutTest("stops a persistent sandbox, which resumes with its files and a new timeout", async () => {
    await using service = await openService({ limits: { minTimeoutMs: 1 } });
    const sandbox = await service.create();
    await sh(sandbox, "echo kept > note; echo home > ~/note; echo tmp > /tmp/note");
    await sandbox.stop();
    await sandbox.update({ timeout: 200 });
    const { name } = sandbox;
    const brief = await Sandbox.get({ ...service.credentials, name, resume: true });
    const ended = await stoppedByItself(service, brief);
    expect(ended.currentSession()).toMatchObject({
      sessionId: brief.currentSession().sessionId,
      status: "stopped",
      timeout: 200,
    });
    const snapshotId = ended.currentSnapshotId ?? "";
    const kept = await Snapshot.get({ ...service.credentials, snapshotId });
    expect(kept.sourceSessionId).toBe(brief.currentSession().sessionId);

    await ended.update({ timeout: 60_000 });
    const again = await Sandbox.get({ ...service.credentials, name, resume: true });
    const session = again.currentSession();
    expect(session).toMatchObject({ status: "running", timeout: 60_000 });
    expect(session.sessionId).not.toBe(ended.currentSession().sessionId);
    expect(again.expiresAt?.getTime()).toBe((session.startedAt?.getTime() ?? 0) + 60_000);
    expect(await sh(again, "cat note ~/note /tmp/note")).toBe("kept\nhome\ntmp");
  });

  timeoutTest("ends a sandbox that is not persistent", async () => {
    await using service = await openService({ limits: { minTimeoutMs: 1 } });
    const sandbox = await service.create({ timeout: 200, persistent: false });
    const { name } = await stoppedByItself(service, sandbox);
    const resuming = Sandbox.get({ ...service.credentials, name, resume: true });
    expect(await refusedWith(resuming)).toEqual({ status: 410, code: "sandbox_stopped" });
  });

  test("cannot be extended beyond the limit", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    expect((await refusedWith(sandbox.extendTimeout(25 * 3_600_000))).status).toBe(400);
  });
});

async function statusOf(service: Service, { name }: Sandbox): Promise<string> {
  return (await Sandbox.get({ ...service.credentials, name, resume: false })).status;
}

async function stoppedByItself(service: Service, { name }: Sandbox): Promise<Sandbox> {
  return eventually(async () => {
    const found = await Sandbox.get({ ...service.credentials, name, resume: false });
    return found.status === "stopped" && found;
  });
}
