import type { EndingDeps } from "@concierge/core";
import { reportEnd } from "@concierge/core/task/end";
import { grantClone, grantPush } from "@concierge/core/task/finalize";
import { takeBeat, takeOutput } from "@concierge/core/task/output";
import { runnerPaths, startedAtOf } from "@concierge/protocol";
import {
  beatPostSchema,
  clonePostSchema,
  continueAnswerSchema,
  endAnswerSchema,
  endPostSchema,
  finalizePostSchema,
  grantSchema,
  outputPostSchema,
} from "@concierge/protocol/schemas";
import { parseTraceparent, recordSpan } from "../../telemetry/trace.ts";
import { recordGrant } from "../audited.ts";
import { createRoute, type DocumentedRouter, json } from "../openapi/documented-router.ts";

/** The runner's routes are not part of the public API, so its document leaves them out. */
const common = { method: "post", hide: true } as const;

const outputRoute = createRoute({
  ...common,
  path: runnerPaths.output,
  request: { body: { required: true, ...json(outputPostSchema, "A batch of output") } },
  responses: { 200: json(continueAnswerSchema, "What to do next") },
});

const beatRoute = createRoute({
  ...common,
  path: runnerPaths.beat,
  request: { body: { required: true, ...json(beatPostSchema, "A sign of life") } },
  responses: { 200: json(continueAnswerSchema, "What to do next") },
});

const endRoute = createRoute({
  ...common,
  path: runnerPaths.end,
  request: { body: { required: true, ...json(endPostSchema, "How the turn ended") } },
  responses: { 200: json(endAnswerSchema, "What to do next") },
});

const cloneRoute = createRoute({
  ...common,
  path: runnerPaths.clone,
  request: { body: { required: true, ...json(clonePostSchema, "The runner's nonce") } },
  responses: { 200: json(grantSchema, "The credential, if granted") },
});

const finalizeRoute = createRoute({
  ...common,
  path: runnerPaths.finalize,
  request: { body: { required: true, ...json(finalizePostSchema, "What to push") } },
  responses: { 200: json(grantSchema, "The credential, if granted") },
});

export function registerRunner(app: DocumentedRouter, deps: EndingDeps): void {
  app.openapi(outputRoute, async (c) => {
    const { seq, chunks, ...report } = c.req.valid("json");
    const batch = chunks.map((chunk) => {
      const at = Date.parse(chunk.at);
      if ("agent" in chunk) return { at, agent: chunk.agent };
      return { stream: chunk.stream, at, data: Buffer.from(chunk.data, "base64") };
    });
    return c.json({ action: await takeOutput(deps, c.get("turn"), { seq, chunks: batch, ...report }) }, 200);
  });

  app.openapi(beatRoute, async (c) => {
    const { activity, ...report } = c.req.valid("json");
    return c.json({ action: await takeBeat(deps, c.get("turn"), activity, report) }, 200);
  });

  app.openapi(endRoute, async (c) => {
    const action = await reportEnd(deps, c.get("turn"), c.req.valid("json"));
    if (action === "done") recordRunner(c.req.header("traceparent"), c.req.header("tracestate"));
    return c.json({ action }, 200);
  });

  app.openapi(cloneRoute, async (c) => {
    return c.json(await grantClone(deps, c.get("turn"), c.req.valid("json").nonce), 200);
  });

  app.openapi(finalizeRoute, async (c) => {
    const push = c.req.valid("json");
    const grant = await grantPush(deps, c.get("turn"), push);
    // Before the answer: without an entry the credential is not handed out, and the runner asks again.
    if (grant.action === "go") await recordGrant(deps, c, { branch: push.branch, commit: push.commit });
    return c.json(grant, 200);
  });
}

/** The runner's span, from its start to the report of its end. It imports nothing, so the api makes the span. */
function recordRunner(traceparent: string | undefined, tracestate: string | undefined): void {
  const parent = parseTraceparent(traceparent);
  const startMs = startedAtOf(tracestate);
  if (!parent || startMs === undefined) return;
  recordSpan({ name: "runner", parent, startMs, endMs: Math.max(Date.now(), startMs) });
}
