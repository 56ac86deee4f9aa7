import { randomBytes } from "node:crypto";
import { createSandbox, deleteSandbox, resumeSandbox } from "../sandbox/lifecycle.ts";
import { defaultRegion, type SandboxConfig, type SandboxRecord } from "../sandbox/records.ts";
import {
  deleteOrphans,
  deleteSnapshot,
  liveSnapshots,
  snapshotById,
  usableSnapshot,
} from "../sandbox/snapshots.ts";
import { currentSession, sandboxNamed, type World } from "../sandbox/world.ts";
import { ApiError } from "./errors.ts";
import { reportedPolicy } from "./network-policy.ts";
import { paginate } from "./paging.ts";
import type { Creation, RequestSchemas, Update } from "./requests.ts";
import { type Call, ok, type Route } from "./routing.ts";
import { routeBodies, sandboxBody, sessionBody, snapshotBody } from "./wire.ts";

const defaultVcpus = 2;
const defaultImage = "vercel/sandbox/universal:latest";

export function sandboxRoutes(world: World, schemas: RequestSchemas): Route[] {
  const { store } = world;
  const base = "/v2/sandboxes";

  const named = (call: Call) => sandboxNamed(world, call.query.get("projectId") ?? "", call.params[0] ?? "");
  const bodyOf = (sandbox: SandboxRecord) => sandboxBody(sandbox, currentSession(world, sandbox));
  const fullBodyOf = (sandbox: SandboxRecord) => ({
    sandbox: bodyOf(sandbox),
    session: sessionBody(currentSession(world, sandbox)),
    routes: routeBodies(world, sandbox),
  });

  const create: Route["handle"] = async (call) => {
    const { projectId, name, source, mounts, ...request } = await call.json(schemas.create);
    if (mounts) throw new ApiError("not_supported", "Drives are not supported locally.");
    const config = configured(baseConfig(world, request), request);
    const sandbox = await createSandbox(world, { projectId, name: name ?? randomName(), config, source });
    return ok(fullBodyOf(sandbox));
  };

  return [
    { name: "createSandbox", method: "POST", path: base, handle: create },
    // The SDK uses v3 for a create without a runtime.
    { name: "createSandbox", method: "POST", path: "/v3/sandboxes", handle: create },
    {
      name: "listSandboxes",
      method: "GET",
      path: base,
      async handle({ query }) {
        const page = schemas.page.parse(Object.fromEntries(query));
        const prefix = query.get("namePrefix") ?? "";
        const tags = query.getAll("tags").map(splitTag);
        const wanted = [...store.sandboxes.values()].filter(
          (sandbox) =>
            sandbox.projectId === (query.get("project") ?? "") &&
            sandbox.name.startsWith(prefix) &&
            tags.every(([key, value]) => sandbox.tags?.[key] === value),
        );
        const { items, pagination } = paginate(wanted, page, (sandbox) => sandbox[page.sortBy]);
        return ok({ sandboxes: items.map(bodyOf), pagination });
      },
    },
    {
      name: "listSnapshots",
      method: "GET",
      path: `${base}/snapshots`,
      async handle({ query }) {
        const name = query.get("name");
        const wanted = liveSnapshots(world).filter(
          (snapshot) =>
            snapshot.projectId === (query.get("project") ?? "") && (!name || snapshot.sandboxName === name),
        );
        const page = schemas.page.parse(Object.fromEntries(query));
        const { items, pagination } = paginate(wanted, page, (snapshot) => snapshot.createdAt);
        return ok({ snapshots: items.map(snapshotBody), pagination });
      },
    },
    {
      name: "getSnapshot",
      method: "GET",
      path: `${base}/snapshots/:id`,
      async handle({ params: [id = ""] }) {
        return ok({ snapshot: snapshotBody(snapshotById(world, id)) });
      },
    },
    {
      name: "deleteSnapshot",
      method: "DELETE",
      path: `${base}/snapshots/:id`,
      async handle({ params: [id = ""] }) {
        const snapshot = snapshotById(world, id);
        deleteSnapshot(world, snapshot);
        return ok({ snapshot: snapshotBody(snapshot) });
      },
    },
    {
      name: "getSandbox",
      method: "GET",
      path: `${base}/:name`,
      async handle(call) {
        const sandbox = named(call);
        const resumed = call.query.get("resume") === "true" && (await resumeSandbox(world, sandbox));
        return ok({ ...fullBodyOf(sandbox), resumed });
      },
    },
    {
      name: "updateSandbox",
      method: "PATCH",
      path: `${base}/:name`,
      async handle(call) {
        const sandbox = named(call);
        const { currentSnapshotId, ...change } = await call.json(schemas.update);
        if (currentSnapshotId) sandbox.currentSnapshotId = usableSnapshot(world, currentSnapshotId).id;
        Object.assign(sandbox, configured(sandbox, change), { updatedAt: Date.now() });
        store.saveSandbox(sandbox);
        return ok({ sandbox: bodyOf(sandbox), routes: routeBodies(world, sandbox) });
      },
    },
    {
      name: "deleteSandbox",
      method: "DELETE",
      path: `${base}/:name`,
      async handle(call) {
        const sandbox = named(call);
        const session = currentSession(world, sandbox);
        await deleteSandbox(world, sandbox);
        if (call.query.get("deleteOrphanSnapshots") === "true") deleteOrphans(world, sandbox);
        return ok({ sandbox: sandboxBody(sandbox, session) });
      },
    },
    {
      name: "forkSandbox",
      method: "POST",
      path: `${base}/:name/fork`,
      async handle(call) {
        const origin = named(call);
        const { name, ...request } = await call.json(schemas.fork);
        const config = configured(inherited(origin), request);
        const snapshotId = origin.currentSnapshotId;
        const fork = await createSandbox(world, {
          projectId: origin.projectId,
          name: name ?? randomName(),
          config,
          source: snapshotId ? { type: "snapshot", snapshotId } : undefined,
        });
        return ok(fullBodyOf(fork));
      },
    },
  ];
}

function baseConfig({ options }: World, { runtime, image }: Creation): SandboxConfig {
  return {
    persistent: true,
    runtime,
    image: runtime ? undefined : (image ?? defaultImage),
    region: defaultRegion,
    vcpus: defaultVcpus,
    timeoutMs: options.limits.defaultTimeoutMs,
    env: {},
    ports: [],
    networkPolicy: { mode: "allow-all" },
  };
}

function inherited(sandbox: SandboxRecord): SandboxConfig {
  const {
    id,
    name,
    projectId,
    createdAt,
    updatedAt,
    statusUpdatedAt,
    currentSessionId,
    currentSnapshotId,
    ...config
  } = sandbox;
  return config;
}

/** The config with the fields of the request. */
function configured(
  config: SandboxConfig,
  request: Update & { env?: Creation["env"]; image?: Creation["image"] },
) {
  const { timeout, resources, networkPolicy, snapshotExpiration, ...same } = request;
  return {
    ...config,
    ...definedOnly(same),
    ...(timeout !== undefined && { timeoutMs: timeout }),
    ...(resources && { vcpus: resources.vcpus }),
    ...(networkPolicy && { networkPolicy: reportedPolicy(networkPolicy), networkRules: networkPolicy }),
    ...(snapshotExpiration !== undefined && { snapshotExpirationMs: snapshotExpiration }),
  };
}

function definedOnly<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(value).filter(([, field]) => field !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

function splitTag(tag: string): [string, string] {
  const colon = tag.indexOf(":");
  return colon < 0 ? [tag, ""] : [tag.slice(0, colon), tag.slice(colon + 1)];
}

function randomName(): string {
  return `sandbox-${randomBytes(6).toString("hex")}`;
}
