import { fireTimer } from "@concierge/core";
import { parseTimer } from "@concierge/queue";
import type { SQSBatchResponse, SQSEvent } from "aws-lambda";
import { eachMessage } from "./batch.ts";
import { composeDeps } from "./compose.ts";

const deps = composeDeps();

export async function handler(event: SQSEvent): Promise<SQSBatchResponse> {
  return await eachMessage(event, (body) => fireTimer(deps, parseTimer(body)));
}
