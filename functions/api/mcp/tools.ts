import {
  continueRequestSchema,
  type EndingDeps,
  getTask,
  type Scope,
  sessionKeySchema,
  showTask,
  startRequestSchema,
  statuses,
  type Task,
  taskViewSchema,
} from "@concierge/core";
import { listSessions } from "@concierge/core/session/verbs";
import { sessionViewSchema } from "@concierge/core/session/view";
import { continueTask } from "@concierge/core/task/continue";
import { start } from "@concierge/core/task/start";
import * as z from "zod/mini";
import { execInSession, execRequestSchema, execResultSchema } from "../exec.ts";
import { formatNameCursor, pageOf, parseIdCursor, parseNameCursor } from "../paging.ts";
import { followTask } from "./follow.ts";
import { readTail } from "./output.ts";

export interface ToolContext {
  deps: EndingDeps;
  userId: string;
  /** Stops a task of the caller, with an entry in the audit log. */
  stop(taskId: string): Promise<Task>;
  /** Tells the client how far the task is, if it asked for that. */
  notify(message: string): Promise<void>;
}

interface Annotations {
  title: string;
  readOnlyHint: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
}

export interface Tool {
  name: string;
  description: string;
  scope: Scope;
  input: z.core.$ZodType;
  output: z.core.$ZodType;
  annotations: Annotations;
  run(context: ToolContext, input: unknown): Promise<object>;
}

/** Under the 60 seconds after which MCP clients give up by default. */
const waitMaxMs = 50_000;
const outputDefaultBytes = 50_000;
const outputMaxBytes = 1_000_000;

const taskId = z.string().check(z.describe("The task's id, for example from start_task or list_tasks"));
const waitMs = z.optional(
  z
    .int()
    .check(
      z.minimum(0),
      z.maximum(waitMaxMs),
      z.describe("Wait up to this long for the turn to end, with progress notifications"),
    ),
);
const idempotencyKey = z.optional(
  z
    .string()
    .check(
      z.regex(/^[\x21-\x7e]{1,128}$/, { error: "must be 1 to 128 printable characters" }),
      z.describe("Calls with the same key within 24 hours are one call"),
    ),
);
const page = {
  limit: z._default(z.int().check(z.minimum(1), z.maximum(100)), 20),
  cursor: z.optional(z.string().check(z.describe("The cursor of the previous page"))),
};

const task = inner(taskViewSchema);
const whatTaskIs =
  "A task is a prompt for a coding agent in its own sandbox. Tasks with the same sessionKey share a sandbox.";

/** The tools, with the schemas of the HTTP routes. */
export const tools: readonly Tool[] = [
  tool({
    name: "start_task",
    description: `Starts a task and returns it. ${whatTaskIs} With waitMs it also waits for the turn to end; otherwise follow it with get_task.`,
    scope: "tasks:write",
    input: z.extend(inner(startRequestSchema), { waitMs, idempotencyKey }),
    output: task,
    annotations: { title: "Start a task", readOnlyHint: false, destructiveHint: false, openWorldHint: true },
    async run(context, { waitMs: forMs, idempotencyKey: key, ...request }) {
      const { deps, userId } = context;
      const started = await start(deps, userId, request, key);
      return await showTask(deps.store, await followTask(context, started, forMs));
    },
  }),
  tool({
    name: "stop_task",
    description:
      "Stops a task. It returns when every process of the turn is proven dead. If the status is still `stopping`, the proof is pending: use get_task with waitMs.",
    scope: "tasks:write",
    input: z.strictObject({ taskId }),
    output: task,
    annotations: { title: "Stop a task", readOnlyHint: false, destructiveHint: true, idempotentHint: true },
    async run({ deps, stop }, input) {
      return await showTask(deps.store, await stop(input.taskId));
    },
  }),
  tool({
    name: "continue_task",
    description:
      "Sends the next prompt to a task whose turn has ended, in the same sandbox and conversation. With waitMs it also waits for the turn to end.",
    scope: "tasks:write",
    input: z.extend(inner(continueRequestSchema), { taskId, waitMs, idempotencyKey }),
    output: task,
    annotations: {
      title: "Continue a task",
      readOnlyHint: false,
      destructiveHint: false,
      openWorldHint: true,
    },
    async run(context, { taskId: id, waitMs: forMs, idempotencyKey: key, ...request }) {
      const { deps, userId } = context;
      const continued = await continueTask(deps, userId, id, request, key);
      return await showTask(deps.store, await followTask(context, continued, forMs));
    },
  }),
  tool({
    name: "get_task",
    description:
      "Returns a task: its status, result, error and usage. With waitMs it waits for the turn to end; call it again while the status is not succeeded, failed, stopped or timed_out.",
    scope: "tasks:read",
    input: z.strictObject({ taskId, waitMs }),
    output: task,
    annotations: { title: "Get a task", readOnlyHint: true, idempotentHint: true },
    async run(context, input) {
      const { deps, userId } = context;
      const found = await getTask(deps, userId, input.taskId);
      return await showTask(deps.store, await followTask(context, found, input.waitMs));
    },
  }),
  tool({
    name: "list_tasks",
    description: "Lists your tasks, newest first.",
    scope: "tasks:read",
    input: z.strictObject({
      ...page,
      status: z.optional(z.enum(statuses)),
      sessionKey: z.optional(sessionKeySchema),
    }),
    output: pageOf(taskViewSchema),
    annotations: { title: "List tasks", readOnlyHint: true, idempotentHint: true },
    async run({ deps, userId }, { limit, cursor, status, sessionKey }) {
      const { items, next } = await deps.store.listTasks(userId, {
        limit,
        ...parseIdCursor(cursor, "task_"),
        ...(status && { status }),
        ...(sessionKey && { sessionKey }),
      });
      const shown = await Promise.all(items.map((one) => showTask(deps.store, one)));
      return { items: shown, cursor: next ?? null };
    },
  }),
  tool({
    name: "get_output",
    description: "Returns what the agent printed: the end of it if it is longer than maxBytes.",
    scope: "tasks:read",
    input: z.strictObject({
      taskId,
      turn: z.optional(z.int().check(z.minimum(1), z.maximum(999_999))),
      maxBytes: z._default(z.int().check(z.minimum(1), z.maximum(outputMaxBytes)), outputDefaultBytes),
    }),
    output: z.object({
      taskId: z.string(),
      status: z.enum(statuses),
      text: z.string(),
      truncated: z.boolean(),
    }),
    annotations: { title: "Get a task's output", readOnlyHint: true, idempotentHint: true },
    async run({ deps, userId }, { taskId: id, turn, maxBytes }) {
      const found = await getTask(deps, userId, id);
      return { taskId: id, status: found.state.status, ...(await readTail(deps, found, { turn, maxBytes })) };
    },
  }),
  tool({
    name: "list_sessions",
    description: "Lists your sessions and their sandboxes, newest first.",
    scope: "sessions:read",
    input: z.strictObject({ ...page, probe: z._default(z.boolean(), false) }),
    output: pageOf(sessionViewSchema),
    annotations: { title: "List sessions", readOnlyHint: true, idempotentHint: true },
    async run({ deps, userId }, { limit, cursor, probe }) {
      const options = { limit, probe, ...parseNameCursor(cursor) };
      const { items, next } = await listSessions(deps, userId, options);
      return { items, cursor: formatNameCursor(next) };
    },
  }),
  tool({
    name: "exec",
    description:
      "Runs a command in a session's sandbox and waits for it. Use it to look at what an agent made. The command is not a shell line: use command `sh` with args `-c` and the line.",
    scope: "sessions:write",
    input: z.extend(execRequestSchema, { sessionKey: sessionKeySchema }),
    output: execResultSchema,
    annotations: { title: "Run a command", readOnlyHint: false, destructiveHint: true, openWorldHint: true },
    async run({ deps, userId }, { sessionKey, ...request }) {
      return await execInSession(deps, { userId, sessionKey }, request);
    },
  }),
];

/** Keeps the types of a tool's schemas for its `run`, which is only called with parsed input. */
function tool<I extends z.core.$ZodType, O extends z.core.$ZodType>(
  definition: Omit<Tool, "input" | "output" | "run"> & {
    input: I;
    output: O;
    run(context: ToolContext, input: z.output<I>): Promise<z.output<O> & object>;
  },
): Tool {
  return { ...definition, run: (context, input) => definition.run(context, input as z.output<I>) };
}

/** MCP wants an object schema, not a lazy one. */
function inner<T extends z.core.$ZodType>(schema: z.ZodMiniLazy<T>): T {
  return schema._zod.innerType as T;
}
