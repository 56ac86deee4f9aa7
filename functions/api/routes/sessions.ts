import { type EndingDeps, sessionKeySchema } from "@concierge/core";
import { extendSession } from "@concierge/core/session/extend";
import { checkHealth } from "@concierge/core/session/prepare";
import {
  deleteSession,
  getSession,
  listSessions,
  requestSession,
  resetSession,
  showSession,
} from "@concierge/core/session/verbs";
import { sessionViewSchema } from "@concierge/core/session/view";
import * as z from "zod/mini";
import { record } from "../audited.ts";
import { execInSession, execRequestSchema, execResultSchema } from "../exec.ts";
import { createRoute, type DocumentedRouter, json, security } from "../openapi/documented-router.ts";
import { formatNameCursor, pageOf, pageQuery, parseNameCursor } from "../paging.ts";

const common = { security, tags: ["sessions"] };
const params = z.object({ key: sessionKeySchema });
const probe = z._default(z.enum(["true", "false"]), "false");
const dayMs = 24 * 60 * 60_000;

const prepare = createRoute({
  ...common,
  method: "put",
  path: "/v1/sessions/{key}",
  scope: "sessions:write",
  summary: "Get or create a session and prepare its sandbox",
  request: { params },
  responses: {
    200: json(sessionViewSchema, "The sandbox is ready"),
    202: json(sessionViewSchema, "The sandbox is being prepared"),
  },
  refuses: ["no_room"],
});

const list = createRoute({
  ...common,
  method: "get",
  path: "/v1/sessions",
  scope: "sessions:read",
  summary: "List your sessions, newest first; `probe` checks each sandbox's health",
  request: { query: z.extend(pageQuery, { probe }) },
  responses: {
    200: json(pageOf(sessionViewSchema), "A page of sessions"),
  },
  refuses: ["invalid_cursor"],
});

const get = createRoute({
  ...common,
  method: "get",
  path: "/v1/sessions/{key}",
  scope: "sessions:read",
  summary: "Get a session; `probe` checks its sandbox's health",
  request: { params, query: z.strictObject({ probe }) },
  responses: {
    200: json(sessionViewSchema, "The session"),
  },
});

const extend = createRoute({
  ...common,
  method: "post",
  path: "/v1/sessions/{key}/extend",
  scope: "sessions:write",
  summary: "Extend the sandbox's expiry, within the plan's limit, and keep it for that time even if idle",
  request: {
    params,
    body: {
      required: true,
      ...json(
        z.strictObject({ durationMs: z.int().check(z.minimum(1000), z.maximum(dayMs)) }),
        "By how long",
      ),
    },
  },
  responses: {
    200: json(sessionViewSchema, "The session"),
  },
  refuses: ["session_not_ready", "provider_unavailable"],
});

const reset = createRoute({
  ...common,
  method: "post",
  path: "/v1/sessions/{key}/reset",
  scope: "sessions:write",
  summary: "Start a new conversation with the agent in the same sandbox",
  request: { params },
  responses: {
    200: json(sessionViewSchema, "The session"),
  },
  refuses: ["session_busy"],
});

const exec = createRoute({
  ...common,
  method: "post",
  path: "/v1/sessions/{key}/exec",
  scope: "sessions:write",
  summary: "Run a command in the session's sandbox and wait for it; creates a sandbox if needed",
  description:
    "A stop of the session's turn kills every process that started with that turn or later, including this command. The answer then has the exit code of a signal (137 or 143) and `stopped: true`.",
  request: { params, body: { required: true, ...json(execRequestSchema, "The command") } },
  responses: {
    200: json(execResultSchema, "The command ended or was killed at its timeout"),
  },
  refuses: ["session_not_ready", "no_room", "provider_unavailable"],
});

const remove = createRoute({
  ...common,
  method: "delete",
  path: "/v1/sessions/{key}",
  scope: "sessions:write",
  summary: "Delete a session and its sandbox",
  request: { params },
  responses: {
    204: { description: "The session is deleted" },
  },
  refuses: ["session_busy", "provider_unavailable"],
});

export function registerSessions(app: DocumentedRouter, deps: EndingDeps): void {
  app.openapi(prepare, async (c) => {
    const { session, health } = await requestSession(deps, nameIn(c));
    const view = await showSession(deps, session, session.sandbox ? health : undefined);
    return health === "healthy" ? c.json(view, 200) : c.json(view, 202);
  });

  app.openapi(list, async (c) => {
    const { limit, cursor, probe } = c.req.valid("query");
    const options = { limit, probe: probe === "true", ...parseNameCursor(cursor) };
    const { items, next } = await listSessions(deps, c.get("caller").userId, options);
    return c.json({ items, cursor: formatNameCursor(next) }, 200);
  });

  app.openapi(get, async (c) => {
    const session = await getSession(deps, nameIn(c));
    const isProbed = c.req.valid("query").probe === "true";
    const health = isProbed ? await checkHealth(deps, nameIn(c)) : undefined;
    return c.json(await showSession(deps, session, health), 200);
  });

  app.openapi(extend, async (c) => {
    await getSession(deps, nameIn(c));
    const session = await extendSession(deps, nameIn(c), c.req.valid("json").durationMs);
    return c.json(await showSession(deps, session), 200);
  });

  app.openapi(reset, async (c) => {
    return c.json(await showSession(deps, await resetSession(deps, nameIn(c))), 200);
  });

  app.openapi(exec, async (c) => {
    return c.json(await execInSession(deps, nameIn(c), c.req.valid("json")), 200);
  });

  app.openapi(remove, async (c) => {
    await getSession(deps, nameIn(c));
    await record(deps, c, "session.delete", nameIn(c).sessionKey);
    await deleteSession(deps, nameIn(c));
    return c.body(null, 204);
  });
}

/** A session is named by its owner and its key, so users can use the same session key. */
function nameIn(c: {
  get(name: "caller"): { userId: string };
  req: { valid(part: "param"): { key: string } };
}) {
  return { userId: c.get("caller").userId, sessionKey: c.req.valid("param").key };
}
