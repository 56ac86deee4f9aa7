import {
  continueRequestSchema,
  type EndingDeps,
  eventSchema,
  getTask,
  isTerminal,
  sessionKeySchema,
  showTask,
  startRequestSchema,
  statuses,
  taskViewSchema,
  waitForTask,
} from "@concierge/core";
import type { Follow } from "@concierge/core/events/follow";
import * as z from "zod/mini";
import { record } from "../audited.ts";
import { createRoute, type DocumentedRouter, json, security } from "../openapi/documented-router.ts";
import { pageOf, pageQuery, parseIdCursor, wholeNumber } from "../paging.ts";

// Verbs and event readers are imported on first use, so that a cold start that only reads a task loads neither.

const common = { security, tags: ["tasks"] };
const params = z.object({ id: z.string() });

const idempotencyHeaders = z.object({
  "idempotency-key": z.optional(
    z.string().check(z.regex(/^[\x21-\x7e]{1,128}$/, { error: "must be 1 to 128 printable characters" })),
  ),
});

const limitRefusals = ["task_limit", "queue_limit", "spend_limit"] as const;

const startRoute = createRoute({
  ...common,
  method: "post",
  path: "/v1/tasks",
  scope: "tasks:write",
  summary: "Start a task",
  request: {
    headers: idempotencyHeaders,
    body: { required: true, ...json(startRequestSchema, "The task") },
  },
  responses: {
    202: { ...json(taskViewSchema, "The task is queued"), headers: z.object({ location: z.string() }) },
  },
  refuses: ["session_busy", "idempotency_conflict", "no_room", ...limitRefusals],
});

const listRoute = createRoute({
  ...common,
  method: "get",
  path: "/v1/tasks",
  scope: "tasks:read",
  summary: "List your tasks, newest first",
  request: {
    query: z.extend(pageQuery, {
      status: z.optional(z.enum(statuses)),
      sessionKey: z.optional(sessionKeySchema),
    }),
  },
  responses: {
    200: json(pageOf(taskViewSchema), "A page of tasks"),
  },
  refuses: ["invalid_cursor"],
});

const getRoute = createRoute({
  ...common,
  method: "get",
  path: "/v1/tasks/{id}",
  scope: "tasks:read",
  summary: "Get a task; `waitMs` waits up to that long for its turn to end",
  request: {
    params,
    query: z.strictObject({
      waitMs: z._default(wholeNumber(0, 25_000), 0),
    }),
  },
  responses: {
    200: json(taskViewSchema, "The task"),
  },
});

const stopRoute = createRoute({
  ...common,
  method: "post",
  path: "/v1/tasks/{id}/stop",
  scope: "tasks:write",
  summary: "Stop a task and prove that its processes are dead",
  description:
    "Kills every process in the sandbox that started with the turn or later. That includes commands run by `exec` in the same session; their answer has `stopped: true`.",
  request: { params },
  responses: {
    200: json(taskViewSchema, "The task has ended"),
    202: json(taskViewSchema, "The task is stopping; the proof is pending"),
  },
  refuses: ["finalizing"],
});

const continueRoute = createRoute({
  ...common,
  method: "post",
  path: "/v1/tasks/{id}/continue",
  scope: "tasks:write",
  summary: "Continue a task whose turn has ended",
  request: {
    params,
    headers: idempotencyHeaders,
    body: { required: true, ...json(continueRequestSchema, "The next prompt") },
  },
  responses: {
    202: json(taskViewSchema, "The next turn is queued"),
  },
  refuses: ["task_active", "session_busy", "turn_limit", "idempotency_conflict", "no_room", ...limitRefusals],
});

const deleteRoute = createRoute({
  ...common,
  method: "delete",
  path: "/v1/tasks/{id}",
  scope: "tasks:write",
  summary: "Delete an ended task with its output, prompts and events",
  request: { params },
  responses: { 204: { description: "The task is gone" } },
  refuses: ["task_active"],
});

const eventsRoute = createRoute({
  ...common,
  method: "get",
  path: "/v1/tasks/{id}/events",
  scope: "tasks:read",
  summary: "Get a page of events after a cursor, or with `Accept: text/event-stream` a stream",
  request: {
    params,
    query: z.strictObject({ after: z.optional(z.string()) }),
    headers: z.object({ "last-event-id": z.optional(z.string()) }),
  },
  responses: {
    200: {
      description: "Events. In a stream, the id of each message is its cursor",
      content: {
        "application/json": { schema: z.object({ items: z.array(eventSchema), cursor: z.string() }) },
        "text/event-stream": { schema: z.string() },
      },
    },
    204: { description: "The task has ended and the stream has no more events" },
  },
  refuses: ["invalid_cursor", "stream_limit"],
});

const outputRoute = createRoute({
  ...common,
  method: "get",
  path: "/v1/tasks/{id}/output",
  scope: "tasks:read",
  summary: "Get the raw output of all turns, or of one",
  request: {
    params,
    query: z.strictObject({ turn: z.optional(wholeNumber(1, 999_999)) }),
  },
  responses: {
    200: { description: "The output", content: { "text/plain": { schema: z.string() } } },
  },
});

export function registerTasks(app: DocumentedRouter, deps: EndingDeps): void {
  app.openapi(startRoute, async (c) => {
    const { userId } = c.get("caller");
    const { start } = await import("@concierge/core/task/start");
    const task = await start(deps, userId, c.req.valid("json"), c.req.valid("header")["idempotency-key"]);
    return c.json(await showTask(deps.store, task), 202, { location: `/v1/tasks/${task.id}` });
  });

  app.openapi(listRoute, async (c) => {
    const { limit, cursor, status, sessionKey } = c.req.valid("query");
    const { items, next } = await deps.store.listTasks(c.get("caller").userId, {
      limit,
      ...parseIdCursor(cursor, "task_"),
      ...(status && { status }),
      ...(sessionKey && { sessionKey }),
    });
    const shown = await Promise.all(items.map((task) => showTask(deps.store, task)));
    return c.json({ items: shown, cursor: next ?? null }, 200);
  });

  app.openapi(getRoute, async (c) => {
    const task = await waitForTask(
      deps,
      c.get("caller").userId,
      c.req.valid("param").id,
      c.req.valid("query").waitMs,
    );
    return c.json(await showTask(deps.store, task), 200);
  });

  app.openapi(stopRoute, async (c) => {
    const { stopRecorded } = await import("../stop.ts");
    const task = await stopRecorded(deps, c, c.req.valid("param").id);
    return c.json(await showTask(deps.store, task), isTerminal(task.state.status) ? 200 : 202);
  });

  app.openapi(continueRoute, async (c) => {
    const { userId } = c.get("caller");
    const key = c.req.valid("header")["idempotency-key"];
    const { continueTask } = await import("@concierge/core/task/continue");
    const task = await continueTask(deps, userId, c.req.valid("param").id, c.req.valid("json"), key);
    return c.json(await showTask(deps.store, task), 202);
  });

  app.openapi(deleteRoute, async (c) => {
    const { userId } = c.get("caller");
    const { id } = c.req.valid("param");
    const task = await getTask(deps, userId, id);
    const { deleteTask } = await import("@concierge/core/task/delete");
    if (isTerminal(task.state.status)) await record(deps, c, "task.delete", id);
    await deleteTask(deps, userId, id);
    return c.body(null, 204);
  });

  let follow: Follow | undefined;
  app.openapi(eventsRoute, async (c) => {
    const task = await getTask(deps, c.get("caller").userId, c.req.valid("param").id);
    if (c.req.header("accept")?.includes("text/event-stream")) {
      const { createFollower } = await import("@concierge/core/events/follow");
      const { sendEvents } = await import("../event-stream.ts");
      follow ??= createFollower(deps);
      const after = c.req.header("last-event-id") ?? c.req.valid("query").after ?? "";
      return (await sendEvents(c, { deps, follow }, task, after)) as never;
    }
    const { parseCursor } = await import("@concierge/core/events/cursor");
    const { readEvents } = await import("@concierge/core/events/read");
    const { items, cursor } = await readEvents(deps, task, parseCursor(c.req.valid("query").after));
    return c.json({ items, cursor }, 200);
  });

  app.openapi(outputRoute, async (c) => {
    const task = await getTask(deps, c.get("caller").userId, c.req.valid("param").id);
    const { readOutput } = await import("@concierge/core/events/read");
    // Reads as fast as the client. An error in the middle breaks the connection, so that a partial answer does not look complete.
    const chunks = ReadableStream.from(readOutput(deps, task, c.req.valid("query").turn));
    return c.body(chunks as ReadableStream, 200, { "content-type": "text/plain; charset=utf-8" });
  });
}
