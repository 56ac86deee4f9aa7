import { SQSClient } from "@aws-sdk/client-sqs";
import type { Timers, WorkQueue } from "@concierge/core";
import { createTimers, createWorkQueue } from "@concierge/queue";
import { Resource } from "sst";
import { currentRequestId } from "./context.ts";

const common = { client: new SQSClient(), requestId: currentRequestId };

export const work: WorkQueue = createWorkQueue({ ...common, queueUrl: Resource.WorkQueue.url });
export const timers: Timers = createTimers({ ...common, queueUrl: Resource.TimerQueue.url });
