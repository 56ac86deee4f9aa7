/** Stands in for EventBridge Scheduler: invokes a function at a fixed rate, never concurrently. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { FunctionPool } from "../lambda/function-pool.ts";
import { accountId, arn, awsRegion, physicalName } from "./aws.ts";

export function startSchedule(pool: FunctionPool, everyMs: number, log: (line: string) => void) {
  const stopping = new AbortController();
  const finished = run();
  return {
    function: pool.name,
    everyMs,
    /** Resolves when the current invocation ends or the pool is stopped. */
    async stop(): Promise<void> {
      stopping.abort();
      await finished;
    },
  };

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      const nextAt = Date.now() + everyMs;
      try {
        await pool.invokeForResult(JSON.stringify(scheduledEvent(pool.name, new Date())));
      } catch (error) {
        if (!stopping.signal.aborted) log(`schedule: ${String(error)}`);
      }
      const waitMs = Math.max(0, nextAt - Date.now());
      await sleep(waitMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  }
}

function scheduledEvent(name: string, now: Date) {
  return {
    version: "0",
    id: randomUUID(),
    "detail-type": "Scheduled Event",
    source: "aws.scheduler",
    account: accountId,
    time: now.toISOString().replace(/\.\d+Z$/, "Z"),
    region: awsRegion,
    resources: [arn("scheduler", `schedule/default/${physicalName(name)}`)],
    detail: "{}",
  };
}
