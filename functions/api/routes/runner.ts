import { type Deps, limits, reportEnd, streams, takeBeat, takeOutput } from "@concierge/core";
import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import type { Env } from "../env.ts";
import { json, problems } from "../responses.ts";

/** What a turn's runner may say. Not part of the public contract, so not in its document. */
const common = { method: "post", hide: true } as const;
const answer = <T extends z.ZodType>(action: T) => ({
  200: json(z.object({ action }), "What to do"),
  ...problems("invalid_request", "unauthorized"),
});

const base64Max = Math.ceil(limits.batchMaxBytes / 3) * 4;

const outputSchema = z.strictObject({
  seq: z.int().min(1),
  chunks: z
    .array(z.strictObject({ stream: z.enum(streams), at: z.iso.datetime(), data: z.base64().max(base64Max) }))
    .min(1)
    .refine((chunks) => chunks.reduce((size, { data }) => size + data.length, 0) <= base64Max, {
      error: `must hold ${limits.batchMaxBytes} bytes at the most`,
    }),
});

const endSchema = z.strictObject({
  lastSeq: z.int().min(0),
  exitCode: z.int().nullable(),
  signal: z.string().max(32).nullable(),
  reason: z.enum(["exited", "deadline", "inactivity", "agent_missing", "runner_error"]),
  outputCutBytes: z.int().min(0),
  text: z.string().max(4000),
  detail: z.string().max(4000).optional(),
});

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
      ...json(z.strictObject({ activity: z.enum(["none", "model", "tool"]) }), "A beat"),
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

export function registerRunner(app: OpenAPIHono<Env>, deps: Deps): void {
  app.openapi(outputRoute, async (c) => {
    const { seq, chunks } = c.req.valid("json");
    const batch = chunks.map(({ stream, at, data }) => ({
      stream,
      at: Date.parse(at),
      data: Buffer.from(data, "base64"),
    }));
    return c.json({ action: await takeOutput(deps, c.get("turn"), { seq, chunks: batch }) }, 200);
  });

  app.openapi(beatRoute, async (c) => {
    return c.json({ action: await takeBeat(deps, c.get("turn"), c.req.valid("json").activity) }, 200);
  });

  app.openapi(endRoute, async (c) => {
    return c.json({ action: await reportEnd(deps, c.get("turn"), c.req.valid("json")) }, 200);
  });
}
