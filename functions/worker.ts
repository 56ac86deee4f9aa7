import { readFile } from "node:fs/promises";
import { type LaunchDeps, required } from "@concierge/core";
import { handleWork } from "@concierge/core/work";
import { parseWorkMessage } from "@concierge/queue";
import type { Context, SQSBatchResponse, SQSEvent } from "aws-lambda";
import { agentAccess } from "./agents.ts";
import { eachMessage } from "./batch.ts";
import { composeDeps } from "./compose.ts";
import { currentRequestId, learn } from "./context.ts";
import { currentTraceparent } from "./telemetry/trace.ts";

const composed = await composeDeps();
const deps: LaunchDeps = {
  ...composed,
  runner: await readFile(required(process.env, "RUNNER_FILE"), "utf8"),
  callbackUrl: required(process.env, "CONCIERGE_URL"),
  agents: agentAccess(process.env),
  requestId: currentRequestId,
  traceparent: currentTraceparent,
};

export async function handler(event: SQSEvent, context: Context): Promise<SQSBatchResponse> {
  return await eachMessage(event, context, { name: "Worker", metrics: deps.metrics, work });
}

async function work(body: string): Promise<void> {
  const message = parseWorkMessage(body);
  const { kind, taskId, turn } = { taskId: undefined, turn: undefined, ...message };
  learn({ work: kind, ...(taskId !== undefined && { taskId, turn }) });
  await handleWork(deps, message);
}
