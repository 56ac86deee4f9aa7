import { fireTimer } from "@concierge/core/task/timer";
import { parseTimer } from "@concierge/queue";
import type { Context, SQSBatchResponse, SQSEvent } from "aws-lambda";
import { eachMessage } from "./batch.ts";
import { composeDeps } from "./compose.ts";
import { learn } from "./context.ts";

const deps = await composeDeps();

export async function handler(event: SQSEvent, context: Context): Promise<SQSBatchResponse> {
  return await eachMessage(event, context, { name: "Timer", metrics: deps.metrics, work });
}

async function work(body: string): Promise<void> {
  const timer = parseTimer(body);
  const { kind, taskId, turn } = timer;
  learn({ timer: kind, taskId, turn });
  await fireTimer(deps, timer);
}
