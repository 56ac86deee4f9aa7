import { SQSClient } from "@aws-sdk/client-sqs";
import type { Timers, WorkQueue } from "@concierge/core";
import { createTimers, createWorkQueue } from "@concierge/queue";
import { Resource } from "sst";
import { currentRequestId } from "./context.ts";
import { currentTraceparent } from "./telemetry/trace.ts";

const common = { client: new SQSClient(), requestId: currentRequestId, traceparent: currentTraceparent };

// `Resource` throws for a queue that this function may not use, so each URL is read when a message is sent.
export const work: WorkQueue = createWorkQueue({
  ...common,
  get queueUrl() {
    return Resource.WorkQueue.url;
  },
  get webhookQueueUrl() {
    return Resource.WebhookQueue.url;
  },
});

export const timers: Timers = createTimers({
  ...common,
  get queueUrl() {
    return Resource.TimerQueue.url;
  },
});
