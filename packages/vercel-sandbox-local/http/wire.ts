import {
  type CommandRecord,
  isAlive,
  memoryMbPerVcpu,
  type SandboxRecord,
  type SessionRecord,
  type SnapshotRecord,
  sandboxCwd,
} from "../sandbox/records.ts";
import type { World } from "../sandbox/world.ts";
import { subdomainOf } from "./preview.ts";

// Records in the form that the SDK validates. JSON omits undefined fields.

export function sandboxBody(sandbox: SandboxRecord, session: SessionRecord) {
  const startedAt = session.startedAt ?? session.createdAt;
  return {
    name: sandbox.name,
    persistent: sandbox.persistent,
    region: sandbox.region,
    failoverRegions: sandbox.failoverRegions,
    networkId: sandbox.networkId,
    vcpus: sandbox.vcpus,
    memory: sandbox.vcpus * memoryMbPerVcpu,
    runtime: sandbox.runtime,
    image: sandbox.image,
    timeout: sandbox.timeoutMs,
    networkPolicy: sandbox.networkPolicy,
    createdAt: sandbox.createdAt,
    updatedAt: sandbox.updatedAt,
    expiresAt: isAlive(session) ? startedAt + session.timeoutMs : undefined,
    currentSessionId: session.id,
    currentSnapshotId: sandbox.currentSnapshotId,
    status: session.status,
    statusUpdatedAt: sandbox.statusUpdatedAt,
    cwd: sandboxCwd,
    tags: sandbox.tags,
    snapshotExpiration: sandbox.snapshotExpirationMs,
    keepLastSnapshots: sandbox.keepLastSnapshots,
  };
}

export function sessionBody(session: SessionRecord) {
  const { startedAt, stoppedAt } = session;
  return {
    id: session.id,
    memory: session.vcpus * memoryMbPerVcpu,
    vcpus: session.vcpus,
    region: session.region,
    runtime: session.runtime,
    timeout: session.timeoutMs,
    status: session.status,
    requestedAt: session.requestedAt,
    startedAt,
    requestedStopAt: session.requestedStopAt,
    stoppedAt,
    abortedAt: session.abortedAt,
    duration: startedAt !== undefined && stoppedAt !== undefined ? stoppedAt - startedAt : undefined,
    sourceSnapshotId: session.sourceSnapshotId,
    snapshottedAt: session.snapshottedAt,
    createdAt: session.createdAt,
    updatedAt: session.updatedAt,
    cwd: sandboxCwd,
    networkPolicy: session.networkPolicy,
  };
}

export function snapshotBody(snapshot: SnapshotRecord) {
  const { projectId: _project, sandboxId: _sandbox, sandboxName: _name, ...body } = snapshot;
  return body;
}

export function commandBody(command: CommandRecord) {
  return { ...command };
}

/** A port of a sandbox is reachable through the API, by the name of its route. */
export function routeBodies({ url }: World, sandbox: SandboxRecord) {
  return sandbox.ports.map((port) => {
    const subdomain = subdomainOf(sandbox, port);
    return { port, subdomain, url: `http://${subdomain}.localhost:${new URL(url).port}` };
  });
}
