import { existsSync } from "node:fs";
import path from "node:path";
import { Sandbox, Snapshot } from "@vercel/sandbox";
import { describe, expect, test } from "vitest";
import { eventually, localTest, openService, refusedWith, sh } from "./testing/api.ts";

const gone = { status: 410, code: "snapshot_not_found" };

describe("a snapshot", () => {
  test("ends the session, and a sandbox created from it has its files", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    await sh(sandbox, "echo snapped > file; mkdir -p ~/.config; echo home > ~/.config/x");
    const snapshot = await sandbox.snapshot();
    expect(snapshot.status).toBe("created");
    expect(snapshot.sizeBytes).toBeGreaterThan(0);
    expect(sandbox.status).toBe("stopped");
    const source = { type: "snapshot" as const, snapshotId: snapshot.snapshotId };
    const [one, two] = await Promise.all([service.create({ source }), service.create({ source })]);
    expect(await sh(one, "cat file ~/.config/x; echo changed > file")).toBe("snapped\nhome");
    expect(await sh(two, "cat file")).toBe("snapped");
    expect(one.sourceSnapshotId).toBe(snapshot.snapshotId);
  });

  localTest("Vercel may not keep /tmp on disk")(
    "contains /tmp of persistent and other sandboxes",
    async () => {
      await using service = await openService();
      for (const persistent of [true, false]) {
        const sandbox = await service.create({ persistent });
        await sh(sandbox, "echo sandbox > /vercel/sandbox/file; echo tmp > /tmp/file");
        const before = Date.now();
        const { snapshotId, expiresAt } = await sandbox.currentSession().snapshot({ expiration: 3_600_000 });
        expect(expiresAt?.getTime()).toBeGreaterThanOrEqual(before + 3_600_000);
        const made = await service.create({ source: { type: "snapshot", snapshotId } });
        expect(await sh(made, "cat /vercel/sandbox/file /tmp/file")).toBe("sandbox\ntmp");
      }
    },
  );

  test("can be read, listed by sandbox name, and deleted", async () => {
    await using service = await openService();
    const sandbox = await service.create();
    const { snapshotId } = await sandbox.snapshot();
    const got = await Snapshot.get({ ...service.credentials, snapshotId });
    expect(got.snapshotId).toBe(snapshotId);
    const listed = await Snapshot.list({ ...service.credentials, name: sandbox.name });
    expect(listed.snapshots.map(({ id }) => id)).toEqual([snapshotId]);
    expect((await sandbox.listSnapshots()).snapshots).toHaveLength(1);
    await got.delete();
    expect(got.status).toBe("deleted");
    expect((await Snapshot.list({ ...service.credentials, name: sandbox.name })).snapshots).toEqual([]);
  });

  test("that was deleted answers 410, and getOrCreate creates a new sandbox", async () => {
    await using service = await openService();
    const sandbox = await service.create();
    const snapshot = await sandbox.snapshot();
    await snapshot.delete();
    expect(await refusedWith(sandbox.runCommand("true"))).toEqual(gone);
    const { snapshotId } = snapshot;
    expect(await refusedWith(service.create({ source: { type: "snapshot", snapshotId } }))).toEqual(gone);
    let created = 0;
    const anew = await Sandbox.getOrCreate({
      ...service.credentials,
      name: sandbox.name,
      resume: true,
      onCreate: async () => {
        created += 1;
      },
    });
    expect(created).toBe(1);
    expect(await sh(anew, "echo anew")).toBe("anew");
    await anew.delete();
  });

  test("that does not exist is not found", async () => {
    await using service = await openService();
    const missing = Snapshot.get({ ...service.credentials, snapshotId: "snap_none" });
    expect((await refusedWith(missing)).status).toBe(404);
  });

  localTest("it would wait too long for an expiration on Vercel")(
    "cannot be used after its expiration",
    async () => {
      await using service = await openService();
      const sandbox = await service.create({ persistent: false });
      const { snapshotId, expiresAt } = await sandbox.snapshot({ expiration: 1 });
      expect(expiresAt).toBeInstanceOf(Date);
      await expect
        .poll(async () => (await Snapshot.get({ ...service.credentials, snapshotId })).status)
        .toBe("deleted");
      expect(existsSync(path.join(service.dataDir, "snapshots", snapshotId, "root"))).toBe(false);
      expect(await refusedWith(service.create({ source: { type: "snapshot", snapshotId } }))).toEqual(gone);
    },
  );

  test("is taken at each stop, and only the requested number is kept", async () => {
    await using service = await openService();
    const sandbox = await service.create({ keepLastSnapshots: { count: 2 } });
    for (const round of [1, 2, 3]) {
      await sh(sandbox, `echo ${round} >> rounds`);
      await sandbox.stop();
    }
    expect((await sandbox.listSnapshots()).snapshots).toHaveLength(2);
    expect(await sh(sandbox, "cat rounds")).toBe("1\n2\n3");
  });

  localTest("Vercel's limit is not known")(
    "over the limit is refused and the sandbox keeps running",
    async () => {
      await using service = await openService({ limits: { maxSnapshotBytes: 1_000_000 } });
      const sandbox = await service.create({ persistent: false });
      await sh(sandbox, "head -c 2000000 /dev/zero > large");
      expect(await refusedWith(sandbox.snapshot())).toEqual({ status: 400, code: "snapshot_too_large" });
      expect(await sh(sandbox, "rm large; echo on")).toBe("on");
      expect((await sandbox.snapshot()).status).toBe("created");
    },
  );

  test("is deleted with its sandbox only on request", async () => {
    await using service = await openService();
    const [kept, dropped] = [await service.create(), await service.create()];
    const [one, two] = [await kept.snapshot(), await dropped.snapshot()];
    await kept.delete();
    await dropped.delete({ deleteOrphanSnapshots: true });
    const statusOf = async ({ snapshotId }: Snapshot) =>
      (await Snapshot.get({ ...service.credentials, snapshotId })).status;
    expect(await statusOf(one)).toBe("created");
    expect(await statusOf(two)).toBe("deleted");
    await one.delete();
  });

  test("that another sandbox needs is not deleted with its sandbox", async () => {
    await using service = await openService();
    const sandbox = await service.create();
    const { snapshot: taken } = await sandbox.stop();
    await sh(sandbox, "true");
    const { snapshotId } = await sandbox.snapshot();
    const user = await service.create({ source: { type: "snapshot", snapshotId } });
    await sandbox.delete({ deleteOrphanSnapshots: true });
    const statusOf = async (id: string) =>
      (await Snapshot.get({ ...service.credentials, snapshotId: id })).status;
    await eventually(async () => (await statusOf(taken?.id ?? "")) === "deleted");
    expect(await statusOf(snapshotId)).toBe("created");
    await user.delete();
  });
});
