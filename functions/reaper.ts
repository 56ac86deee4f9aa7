import { type ReapReport, reap } from "@concierge/core/reaper/reap";
import type { Context } from "aws-lambda";
import { composeDeps } from "./compose.ts";
import { deadlineOf, inContext } from "./context.ts";
import { log } from "./telemetry/log.ts";
import { flushTelemetry, inSpan } from "./telemetry/trace.ts";

const deps = await composeDeps();

/** Time to finish started work and to write the report. */
const reserveMs = 10_000;

export async function handler(_event: unknown, context: Context): Promise<ReapReport> {
  const pass = async () => {
    const report = await reap(deps, { dryRun: false, maxMs: context.getRemainingTimeInMillis() - reserveMs });
    log.info("reaper pass finished", { report });
    return report;
  };
  const traced = () => inSpan({ name: "Reaper" }, pass);
  try {
    return await inContext({ requestId: context.awsRequestId }, traced, deadlineOf(context));
  } finally {
    await flushTelemetry();
  }
}
