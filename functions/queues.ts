import { SQSClient } from "@aws-sdk/client-sqs";
import type { Timers, WorkQueue } from "@concierge/core";
import { createTimers, createWorkQueue } from "@concierge/queue";
import { Resource } from "sst";
import { currentRequestId } from "./context.ts";

const common = { client: new SQSClient(), requestId: currentRequestId };

// `Resource` has only the queues that this function may use, and throws for another: so each is looked up when it is
// sent to.
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
