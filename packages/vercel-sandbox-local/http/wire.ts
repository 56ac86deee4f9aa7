import {
  type CommandRecord,
  isAlive,
  MEMORY_MB_PER_VCPU,
  SANDBOX_CWD,
  type SandboxRecord,
  type SessionRecord,
  type SnapshotRecord,
} from "../sandbox/records.ts";

// The records as the SDK's validators want them. A field that is undefined is left out of the JSON.

export function sandboxBody(sandbox: SandboxRecord, session: SessionRecord) {
  const startedAt = session.startedAt ?? session.createdAt;
  return {
    name: sandbox.name,
    persistent: sandbox.persistent,
    region: sandbox.region,
    failoverRegions: sandbox.failoverRegions,
    networkId: sandbox.networkId,
    vcpus: sandbox.vcpus,
    memory: sandbox.vcpus * MEMORY_MB_PER_VCPU,
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
    cwd: SANDBOX_CWD,
    tags: sandbox.tags,
    snapshotExpiration: sandbox.snapshotExpirationMs,
    keepLastSnapshots: sandbox.keepLastSnapshots,
  };
}

export function sessionBody(session: SessionRecord) {
  const { startedAt, stoppedAt } = session;
  return {
    id: session.id,
    memory: session.vcpus * MEMORY_MB_PER_VCPU,
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
    cwd: SANDBOX_CWD,
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

/** The network is the host's: a port in the sandbox is the same port on loopback. */
export function routeBodies(sandbox: SandboxRecord) {
  return sandbox.ports.map((port) => ({
    port,
    subdomain: `${sandbox.id.replace("_", "-")}-${port}`,
    url: `http://127.0.0.1:${port}`,
  }));
}
