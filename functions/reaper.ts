import { type ReapReport, reap } from "@concierge/core/verbs";
import type { Context } from "aws-lambda";
import { composeDeps } from "./compose.ts";
import { deadlineOf, inContext } from "./context.ts";
import { log } from "./log.ts";

const deps = await composeDeps();

/** Time to write the report and to end what was begun. */
const reserveMs = 10_000;

export async function handler(_event: unknown, context: Context): Promise<ReapReport> {
  const sweep = async () => {
    const report = await reap(deps, { dryRun: false, maxMs: context.getRemainingTimeInMillis() - reserveMs });
    log.info("swept", { report });
    return report;
  };
  return await inContext({ requestId: context.awsRequestId }, sweep, deadlineOf(context));
}
