import { randomBytes } from "node:crypto";
import type { NetworkPolicyRequest } from "../network/policy.ts";

export const sandboxCwd = "/vercel/sandbox";
export const defaultRegion = "iad1";
export const memoryMbPerVcpu = 2_048;

export type SessionStatus =
  | "pending"
  | "running"
  | "stopping"
  | "snapshotting"
  | "stopped"
  | "aborted"
  | "failed";

export type NetworkPolicy =
  | { mode: "allow-all" }
  | { mode: "deny-all" }
  | {
      mode: "custom";
      allowedDomains?: string[] | undefined;
      allowedCIDRs?: string[] | undefined;
      deniedCIDRs?: string[] | undefined;
      injectionRules?: { domain: string; headerNames: string[]; match?: object | undefined }[] | undefined;
      forwardRules?: { domain: string; forwardURL: string; match?: object | undefined }[] | undefined;
    };

export interface Retention {
  count: number;
  expiration?: number | undefined;
  deleteEvicted?: boolean | undefined;
}

/** Set by the caller; copied by a fork. */
export interface SandboxConfig {
  persistent: boolean;
  runtime?: string | undefined;
  image?: string | undefined;
  region: string;
  failoverRegions?: string[] | undefined;
  networkId?: string | undefined;
  vcpus: number;
  timeoutMs: number;
  env: Record<string, string>;
  tags?: Record<string, string> | undefined;
  ports: number[];
  /** As reported to callers. */
  networkPolicy: NetworkPolicy;
  /** As requested, with the headers' values. */
  networkRules?: NetworkPolicyRequest | undefined;
  snapshotExpirationMs?: number | undefined;
  keepLastSnapshots?: Retention | undefined;
}

export interface SandboxRecord extends SandboxConfig {
  id: string;
  name: string;
  projectId: string;
  createdAt: number;
  updatedAt: number;
  statusUpdatedAt: number;
  currentSessionId: string;
  currentSnapshotId?: string | undefined;
}

export interface SessionRecord {
  id: string;
  sandboxId: string;
  status: SessionStatus;
  vcpus: number;
  region: string;
  runtime?: string | undefined;
  timeoutMs: number;
  networkPolicy: NetworkPolicy;
  sourceSnapshotId?: string | undefined;
  requestedAt: number;
  createdAt: number;
  updatedAt: number;
  startedAt?: number | undefined;
  requestedStopAt?: number | undefined;
  stoppedAt?: number | undefined;
  abortedAt?: number | undefined;
  snapshottedAt?: number | undefined;
}

export interface SnapshotRecord {
  id: string;
  projectId: string;
  sandboxId: string;
  sandboxName: string;
  sourceSessionId: string;
  parentId?: string | undefined;
  region: string;
  status: "created" | "deleted" | "failed";
  sizeBytes: number;
  creationMethod: "manual" | "automatic";
  createdAt: number;
  updatedAt: number;
  lastUsedAt?: number | undefined;
  expiresAt?: number | undefined;
}

export interface CommandRecord {
  id: string;
  sessionId: string;
  name: string;
  args: string[];
  cwd: string;
  startedAt: number;
  /** Null while it runs. Stays null if its session ended first. */
  exitCode: number | null;
  durationMs?: number | undefined;
}

const idPrefixes = { sandbox: "sbx", session: "sess", snapshot: "snap", command: "cmd" } as const;
const idBytes = 15;

export function newId(kind: keyof typeof idPrefixes): string {
  return `${idPrefixes[kind]}_${randomBytes(idBytes).toString("hex")}`;
}

export function isAlive(session: SessionRecord): boolean {
  switch (session.status) {
    case "pending":
    case "running":
    case "stopping":
    case "snapshotting":
      return true;
    case "stopped":
    case "aborted":
    case "failed":
      return false;
  }
}
