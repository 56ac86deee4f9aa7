import { z } from "zod";
import { NetworkPolicyRequest } from "../network/policy.ts";
import type { Limits } from "../options.ts";

// Request bodies. Configurable bounds come from `limits`.

const maxVcpus = 32;
const maxSignal = 64;
const runtimes = ["node26", "node24", "node22", "python3.13"] as const;
// These are routes.
const reservedNames = new Set(["sessions", "snapshots", "drives"]);

const Name = z
  .string()
  .max(128)
  .regex(/^[a-zA-Z0-9_-]+$/, "must be letters, digits, hyphens and underscores")
  .refine((name) => !reservedNames.has(name), "is a reserved name");

const Environment = z.record(z.string().regex(/^[^=\0]+$/), z.string().regex(/^[^\0]*$/));

const Retention = z.object({
  count: z.number().int().min(1).max(10),
  expiration: z.number().int().min(0).optional(),
  deleteEvicted: z.boolean().optional(),
});

const Source = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("git"),
    url: z.string(),
    username: z.string().optional(),
    password: z.string().optional(),
    depth: z.number().int().min(1).optional(),
    revision: z
      .string()
      .regex(/^[^-\s][^\s]*$/, "is not a revision")
      .optional(),
  }),
  z.object({ type: z.literal("tarball"), url: z.string() }),
  z.object({ type: z.literal("snapshot"), snapshotId: z.string() }),
]);

const Text = z.string().regex(/^[^\0]*$/, "must not contain a NUL");

export function requestSchemas(limits: Limits) {
  const settings = {
    persistent: z.boolean().optional(),
    timeout: z.number().int().min(limits.minTimeoutMs).max(limits.maxTimeoutMs).optional(),
    resources: z.object({ vcpus: z.number().int().min(1).max(maxVcpus) }).optional(),
    networkPolicy: NetworkPolicyRequest.optional(),
    networkId: z.string().optional(),
    tags: z
      .record(z.string().min(1).max(256), z.string().max(256))
      .refine((tags) => Object.keys(tags).length <= limits.maxTags, `at most ${limits.maxTags} tags`)
      .optional(),
    ports: z.array(z.number().int().min(1).max(65_535)).max(limits.maxPorts).optional(),
    snapshotExpiration: z.number().int().min(0).optional(),
    keepLastSnapshots: Retention.optional(),
    region: z.string().optional(),
    failoverRegions: z.array(z.string()).optional(),
  };
  const creation = {
    ...settings,
    name: Name.optional(),
    image: z.string().optional(),
    env: Environment.optional(),
  };
  return {
    create: z.object({
      ...creation,
      projectId: z.string().default(""),
      runtime: z.enum(runtimes).optional(),
      source: Source.optional(),
      mounts: z.record(z.string(), z.unknown()).optional(),
    }),
    fork: z.object(creation),
    update: z.object({ ...settings, currentSnapshotId: z.string().optional() }),
    command: z.object({
      command: Text.min(1),
      args: z.array(Text).default([]),
      cwd: Text.optional(),
      env: Environment.default({}),
      sudo: z.boolean().optional(),
      wait: z.boolean().default(false),
      logs: z.boolean().default(false),
      timeout: z.number().int().positive().optional(),
    }),
    kill: z.object({ signal: z.number().int().min(1).max(maxSignal).default(15) }),
    mkdir: z.object({ path: Text.min(1), cwd: Text.optional(), recursive: z.boolean().default(true) }),
    read: z.object({ path: Text.min(1), cwd: Text.optional() }),
    extend: z.object({ duration: z.number().int().positive() }),
    snapshot: z.object({ expiration: z.number().int().min(0).optional() }),
    policy: NetworkPolicyRequest,
    page: z.object({
      limit: z.coerce.number().int().min(1).max(100).default(20),
      cursor: z.string().optional(),
      sortBy: z.enum(["createdAt", "name", "statusUpdatedAt"]).default("createdAt"),
      sortOrder: z.enum(["asc", "desc"]).default("desc"),
    }),
  };
}

export type RequestSchemas = ReturnType<typeof requestSchemas>;
export type Creation = z.infer<RequestSchemas["fork"]> & { runtime?: string | undefined };
export type Update = z.infer<RequestSchemas["update"]>;
export type Page = z.infer<RequestSchemas["page"]>;
