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
import type { Follow } from "@concierge/core/events";
import * as z from "zod/mini";
import { pageOf, pageQuery, parseIdCursor, wholeNumber } from "../paging.ts";
import { createRoute, json, type Router, security } from "../router.ts";

/** Whoever only asks for a task loads nothing that changes one, and nothing that reads what it has said. */
const loadVerbs = () => import("../task-verbs.ts");
const loadEvents = () => import("../task-events.ts");

const common = { security, tags: ["tasks"] };
const params = z.object({ id: z.string() });

const idempotencyHeaders = z.object({
  "idempotency-key": z.optional(
    z.string().check(z.regex(/^[\x21-\x7e]{1,128}$/, { error: "must be 1 to 128 printable characters" })),
  ),
});

const startRoute = createRoute({
  ...common,
  method: "post",
  path: "/v1/tasks",
  summary: "Start a task",
  request: {
    headers: idempotencyHeaders,
    body: { required: true, ...json(startRequestSchema, "What to do") },
  },
  responses: {
    202: { ...json(taskViewSchema, "It is on its way"), headers: z.object({ location: z.string() }) },
  },
  refuses: ["session_busy", "idempotency_conflict", "no_room"],
});

const listRoute = createRoute({
  ...common,
  method: "get",
  path: "/v1/tasks",
  summary: "Your tasks, newest first",
  request: {
    query: z.extend(pageQuery, {
      status: z.optional(z.enum(statuses)),
      sessionKey: z.optional(sessionKeySchema),
    }),
  },
  responses: {
    200: json(pageOf(taskViewSchema), "A page"),
  },
  refuses: ["invalid_cursor"],
});

const getRoute = createRoute({
  ...common,
  method: "get",
  path: "/v1/tasks/{id}",
  summary: "A task; with `waitMs`, once its turn has ended or the time is over",
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
  summary: "Stop a task; what is stopped is proven dead",
  description:
    "Ends every process in the sandbox that began with the turn or later. That includes commands run by `exec` in the same session meanwhile; their answer says `stopped: true`.",
  request: { params },
  responses: {
    200: json(taskViewSchema, "It has ended"),
    202: json(taskViewSchema, "It is being stopped; the proof is still out"),
  },
  refuses: ["finalizing"],
});

const continueRoute = createRoute({
  ...common,
  method: "post",
  path: "/v1/tasks/{id}/continue",
  summary: "Go on with a task whose turn has ended",
  request: {
    params,
    headers: idempotencyHeaders,
    body: { required: true, ...json(continueRequestSchema, "What next") },
  },
  responses: {
    202: json(taskViewSchema, "It is on its way"),
  },
  refuses: ["task_active", "session_busy", "turn_limit", "idempotency_conflict", "no_room"],
});

const eventsRoute = createRoute({
  ...common,
  method: "get",
  path: "/v1/tasks/{id}/events",
  summary:
    "What happened after a cursor: a page, or with `Accept: text/event-stream` a stream that ends with the task",
  request: {
    params,
    query: z.strictObject({ after: z.optional(z.string()) }),
    headers: z.object({ "last-event-id": z.optional(z.string()) }),
  },
  responses: {
    200: {
      description: "Events; in a stream each is a message whose id is its cursor",
      content: {
        "application/json": { schema: z.object({ items: z.array(eventSchema), cursor: z.string() }) },
        "text/event-stream": { schema: z.string() },
      },
    },
    204: { description: "The stream's task has ended, and there is nothing after that cursor" },
  },
  refuses: ["invalid_cursor"],
});

const outputRoute = createRoute({
  ...common,
  method: "get",
  path: "/v1/tasks/{id}/output",
  summary: "All output, or one turn's, byte for byte",
  request: {
    params,
    query: z.strictObject({ turn: z.optional(wholeNumber(1, 999_999)) }),
  },
  responses: {
    200: { description: "The output", content: { "text/plain": { schema: z.string() } } },
  },
});

export function registerTasks(app: Router, deps: EndingDeps): void {
  app.openapi(startRoute, async (c) => {
    const { userId } = c.get("caller");
    const { start } = await loadVerbs();
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
    const { stop } = await loadVerbs();
    const task = await stop(deps, c.get("caller").userId, c.req.valid("param").id);
    return c.json(await showTask(deps.store, task), isTerminal(task.state.status) ? 200 : 202);
  });

  app.openapi(continueRoute, async (c) => {
    const { userId } = c.get("caller");
    const key = c.req.valid("header")["idempotency-key"];
    const { continueTask } = await loadVerbs();
    const task = await continueTask(deps, userId, c.req.valid("param").id, c.req.valid("json"), key);
    return c.json(await showTask(deps.store, task), 202);
  });

  let follow: Follow | undefined;
  app.openapi(eventsRoute, async (c) => {
    const { createFollower, parseCursor, readEvents, sendEvents } = await loadEvents();
    follow ??= createFollower(deps);
    const task = await getTask(deps, c.get("caller").userId, c.req.valid("param").id);
    if (c.req.header("accept")?.includes("text/event-stream")) {
      const after = c.req.header("last-event-id") ?? c.req.valid("query").after ?? "";
      return (await sendEvents(c, { deps, follow }, task, after)) as never;
    }
    const { items, cursor } = await readEvents(deps, task, parseCursor(c.req.valid("query").after));
    return c.json({ items, cursor }, 200);
  });

  app.openapi(outputRoute, async (c) => {
    const task = await getTask(deps, c.get("caller").userId, c.req.valid("param").id);
    const { readOutput } = await loadEvents();
    // Read as fast as the client reads. What fails in the middle cuts the answer: it must not look whole.
    const chunks = ReadableStream.from(readOutput(deps, task, c.req.valid("query").turn));
    return c.body(chunks as ReadableStream, 200, { "content-type": "text/plain; charset=utf-8" });
  });
}
