import { agentEventSchema, type EndingDeps, limits, streams } from "@concierge/core";
import { grantClone, grantPush, reportEnd, takeBeat, takeOutput } from "@concierge/core/verbs";
import * as z from "zod/mini";
import { createRoute, json, type Router } from "../router.ts";

/** What a turn's runner may say. Not part of the public contract, so not in its document. */
const common = { method: "post", hide: true } as const;
const answer = <T extends z.ZodMiniType>(action: T) => ({ 200: json(z.object({ action }), "What to do") });

const base64Max = Math.ceil(limits.batchMaxBytes / 3) * 4;

/** What an adapter may say of its agent with any post. */
const report = {
  usage: z.optional(
    z.object({
      inputTokens: z.int().check(z.minimum(0)),
      outputTokens: z.int().check(z.minimum(0)),
      // To the billionth of a dollar: the table cannot store every number that JSON has.
      costUsd: z.pipe(
        z.number().check(z.minimum(0), z.maximum(1e6)),
        z.transform((usd) => Math.round(usd * 1e9) / 1e9),
      ),
    }),
  ),
  // It becomes an argument of the next turn's agent, so it must not look like an option.
  conversationId: z.optional(z.string().check(z.regex(/^[A-Za-z0-9][\x21-\x7e]{0,199}$/))),
};

const eventMaxBytes = 64 * 1024;

const streamChunkSchema = z.object({
  stream: z.enum(streams),
  at: z.iso.datetime(),
  data: z.base64().check(z.maxLength(base64Max)),
});

const agentChunkSchema = z.object({
  at: z.iso.datetime(),
  agent: agentEventSchema.check(
    z.refine((event) => sizeOf(event) <= eventMaxBytes, {
      error: `must be ${eventMaxBytes} bytes at the most`,
    }),
  ),
});

type Chunk = z.infer<typeof streamChunkSchema> | z.infer<typeof agentChunkSchema>;

const outputSchema = z.object({
  seq: z.int().check(z.minimum(1)),
  chunks: z.array(z.union([streamChunkSchema, agentChunkSchema])).check(
    z.minLength(1),
    z.maxLength(limits.batchMaxChunks),
    z.refine((chunks) => chunks.reduce((size, chunk) => size + weightOf(chunk), 0) <= limits.batchMaxBytes, {
      error: `must hold ${limits.batchMaxBytes} bytes at the most`,
    }),
  ),
  ...report,
});

/** As the runner counts it. */
function weightOf(chunk: Chunk): number {
  return "agent" in chunk ? sizeOf(chunk.agent) : Buffer.byteLength(chunk.data, "base64");
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

const commitSchema = z.string().check(z.regex(/^[0-9a-f]{40,64}$/));

const endSchema = z.object({
  lastSeq: z.int().check(z.minimum(0)),
  exitCode: z.nullable(z.int()),
  signal: z.nullable(z.string().check(z.maxLength(32))),
  reason: z.enum([
    "exited",
    "deadline",
    "inactivity",
    "agent_missing",
    "install_failed",
    "clone_failed",
    "runner_error",
  ]),
  outputCutBytes: z.int().check(z.minimum(0)),
  agentMs: z.optional(z.int().check(z.minimum(0))),
  text: z.string().check(z.maxLength(limits.resultTextMaxLength)),
  detail: z.optional(z.string().check(z.maxLength(4000))),
  commit: z.optional(commitSchema),
  branch: z.optional(z.string().check(z.maxLength(limits.branchMaxLength))),
  pushed: z.optional(z.boolean()),
  ...report,
});

const finalizeSchema = z.object({
  commit: commitSchema,
  branch: z.string().check(z.maxLength(limits.branchMaxLength)),
  exitCode: z.int(),
  text: z.string().check(z.maxLength(limits.resultTextMaxLength)),
});

const grantSchema = z.union([
  z.object({
    action: z.literal("go"),
    credential: z.nullable(z.object({ username: z.string(), token: z.string() })),
  }),
  z.object({ action: z.enum(["stop", "wait"]) }),
]);

const outputRoute = createRoute({
  ...common,
  path: "/v1/runner/output",
  request: { body: { required: true, ...json(outputSchema, "A batch") } },
  responses: answer(z.enum(["continue", "stop", "wait"])),
});

const beatRoute = createRoute({
  ...common,
  path: "/v1/runner/beat",
  request: {
    body: {
      required: true,
      ...json(z.object({ activity: z.enum(["none", "model", "tool"]), ...report }), "A beat"),
    },
  },
  responses: answer(z.enum(["continue", "stop", "wait"])),
});

const endRoute = createRoute({
  ...common,
  path: "/v1/runner/end",
  request: { body: { required: true, ...json(endSchema, "The end") } },
  responses: answer(z.enum(["done", "stop", "wait"])),
});

const grants = { 200: json(grantSchema, "The credential, or none") };

const cloneRoute = createRoute({
  ...common,
  path: "/v1/runner/clone",
  request: {
    body: {
      required: true,
      ...json(z.object({ nonce: z.string().check(z.minLength(16), z.maxLength(128)) }), "Who asks"),
    },
  },
  responses: grants,
});

const finalizeRoute = createRoute({
  ...common,
  path: "/v1/runner/finalize",
  request: { body: { required: true, ...json(finalizeSchema, "What is to be pushed") } },
  responses: grants,
});

export function registerRunner(app: Router, deps: EndingDeps): void {
  app.openapi(outputRoute, async (c) => {
    const { seq, chunks, ...said } = c.req.valid("json");
    const batch = chunks.map((chunk) => {
      const at = Date.parse(chunk.at);
      if ("agent" in chunk) return { at, agent: chunk.agent };
      return { stream: chunk.stream, at, data: Buffer.from(chunk.data, "base64") };
    });
    return c.json({ action: await takeOutput(deps, c.get("turn"), { seq, chunks: batch, ...said }) }, 200);
  });

  app.openapi(beatRoute, async (c) => {
    const { activity, ...said } = c.req.valid("json");
    return c.json({ action: await takeBeat(deps, c.get("turn"), activity, said) }, 200);
  });

  app.openapi(endRoute, async (c) => {
    return c.json({ action: await reportEnd(deps, c.get("turn"), c.req.valid("json")) }, 200);
  });

  app.openapi(cloneRoute, async (c) => {
    return c.json(await grantClone(deps, c.get("turn"), c.req.valid("json").nonce), 200);
  });

  app.openapi(finalizeRoute, async (c) => {
    return c.json(await grantPush(deps, c.get("turn"), c.req.valid("json")), 200);
  });
}
