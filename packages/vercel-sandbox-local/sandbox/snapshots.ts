import { existsSync, renameSync } from "node:fs";
import { ApiError } from "../http/errors.ts";
import { newId, type SandboxRecord, type SessionRecord, type SnapshotRecord } from "./records.ts";
import { copyTree, treeBytes } from "./store.ts";
import { sessionById, type World } from "./world.ts";

/** A snapshot on request, in contrast to one that a stop takes. */
export interface Snapshotting {
  expirationMs?: number | undefined;
}

export function snapshotById({ store }: World, id: string): SnapshotRecord {
  const snapshot = store.snapshots.get(id);
  if (!snapshot) throw new ApiError("not_found", "Snapshot not found.");
  return expire(store, snapshot);
}

export function usableSnapshot(world: World, id: string): SnapshotRecord {
  const snapshot = world.store.snapshots.get(id);
  if (snapshot && expire(world.store, snapshot).status === "created") return snapshot;
  throw new ApiError("snapshot_not_found", `Snapshot "${id}" was deleted, has expired or does not exist.`);
}

export function liveSnapshots({ store }: World): SnapshotRecord[] {
  return [...store.snapshots.values()].filter((snapshot) => expire(store, snapshot).status === "created");
}

export function deleteSnapshot(world: World, snapshot: SnapshotRecord): void {
  dropFiles(world.store, snapshot);
}

/** Deletes snapshots of this sandbox that no other sandbox uses. */
export function deleteOrphans(world: World, sandbox: SandboxRecord): void {
  const used = new Set([...world.store.sandboxes.values()].map((other) => other.currentSnapshotId));
  for (const snapshot of liveSnapshots(world)) {
    if (snapshot.sandboxId === sandbox.id && !used.has(snapshot.id)) dropFiles(world.store, snapshot);
  }
}

/** Throws if a snapshot would be too large. Called before the session ends, so that it can continue. */
export async function assertFits(world: World, sessionId: string): Promise<void> {
  const session = sessionById(world, sessionId);
  const { maxSnapshotBytes } = world.options.limits;
  if ((await treeBytes(world.store.sessionRoot(session.id))) <= maxSnapshotBytes) return;
  throw new ApiError("snapshot_too_large", `A snapshot can be at most ${maxSnapshotBytes} bytes.`);
}

/** Turns the files of an ended session into a snapshot, with one rename. */
export async function keepFiles(
  world: World,
  sandbox: SandboxRecord,
  session: SessionRecord,
  snapshotting: Snapshotting | undefined,
): Promise<SnapshotRecord> {
  const { store, options } = world;
  const root = store.sessionRoot(session.id);
  const sizeBytes = await treeBytes(root);
  const now = Date.now();
  const expirationMs =
    snapshotting?.expirationMs ??
    sandbox.keepLastSnapshots?.expiration ??
    sandbox.snapshotExpirationMs ??
    options.limits.defaultSnapshotExpirationMs;
  const snapshot: SnapshotRecord = {
    id: newId("snapshot"),
    projectId: sandbox.projectId,
    sandboxId: sandbox.id,
    sandboxName: sandbox.name,
    sourceSessionId: session.id,
    parentId: session.sourceSnapshotId,
    region: session.region,
    status: sizeBytes <= options.limits.maxSnapshotBytes ? "created" : "failed",
    sizeBytes,
    creationMethod: snapshotting ? "manual" : "automatic",
    createdAt: now,
    updatedAt: now,
    ...(expirationMs > 0 && { expiresAt: now + expirationMs }),
  };
  if (snapshot.status === "failed") {
    options.onLog(
      `session ${session.id} was larger than ${options.limits.maxSnapshotBytes} bytes: its files are lost`,
    );
    store.saveSnapshot(snapshot);
    return snapshot;
  }
  // In this order: record, files, pointer. The API can be killed in between, and `recover` can then tell which steps
  // were done. In any other order it could lose the files or resume an older snapshot.
  store.saveSnapshot(snapshot);
  renameSync(root, store.snapshotRoot(snapshot.id));
  sandbox.currentSnapshotId = snapshot.id;
  store.saveSandbox(sandbox);
  evict(world, sandbox);
  return snapshot;
}

export async function restoreFiles(world: World, snapshotId: string, root: string): Promise<void> {
  const snapshot = usableSnapshot(world, snapshotId);
  snapshot.lastUsedAt = Date.now();
  world.store.saveSnapshot(snapshot);
  await copyTree(world.store.snapshotRoot(snapshotId), root);
}

/** Deletes records without files. The files are still those of the session. */
export function deleteIncompleteSnapshots({ store }: World): void {
  for (const snapshot of store.snapshots.values()) {
    if (snapshot.status === "created" && !existsSync(store.snapshotRoot(snapshot.id)))
      dropFiles(store, snapshot);
  }
}

/** Points the sandbox at the snapshot of its last session. False if there is none. */
export function adoptSnapshot({ store }: World, sandbox: SandboxRecord, session: SessionRecord): boolean {
  for (const snapshot of store.snapshots.values()) {
    if (snapshot.sourceSessionId !== session.id || snapshot.status !== "created") continue;
    sandbox.currentSnapshotId = snapshot.id;
    store.saveSandbox(sandbox);
    return true;
  }
  return false;
}

function evict(world: World, sandbox: SandboxRecord): void {
  const { keepLastSnapshots } = sandbox;
  if (!keepLastSnapshots || keepLastSnapshots.deleteEvicted === false) return;
  liveSnapshots(world)
    .filter((snapshot) => snapshot.sandboxId === sandbox.id && snapshot.id !== sandbox.currentSnapshotId)
    .sort((a, b) => b.createdAt - a.createdAt)
    .slice(keepLastSnapshots.count - 1)
    .forEach((snapshot) => {
      dropFiles(world.store, snapshot);
    });
}

function expire(store: World["store"], snapshot: SnapshotRecord): SnapshotRecord {
  const expired = snapshot.expiresAt !== undefined && snapshot.expiresAt <= Date.now();
  if (expired && snapshot.status === "created") dropFiles(store, snapshot);
  return snapshot;
}

function dropFiles(store: World["store"], snapshot: SnapshotRecord): void {
  snapshot.status = "deleted";
  snapshot.updatedAt = Date.now();
  store.saveSnapshot(snapshot);
  store.discard(store.snapshotRoot(snapshot.id));
}
