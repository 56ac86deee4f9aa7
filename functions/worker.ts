import { readFile } from "node:fs/promises";
import { type LaunchDeps, provision, release, type WorkMessage } from "@concierge/core";
import { parseWorkMessage } from "@concierge/queue";
import type { SQSBatchResponse, SQSEvent } from "aws-lambda";
import { eachMessage } from "./batch.ts";
import { composeDeps } from "./compose.ts";
import { required } from "./environment.ts";

const deps: LaunchDeps = {
  ...composeDeps(),
  runner: await readFile(required("RUNNER_FILE"), "utf8"),
  callbackUrl: required("CONCIERGE_URL"),
};

export async function handler(event: SQSEvent): Promise<SQSBatchResponse> {
  return await eachMessage(event, (body) => work(parseWorkMessage(body)));
}

async function work(message: WorkMessage): Promise<void> {
  switch (message.kind) {
    case "provision":
      return await provision(deps, message);
    case "release":
      return await release(deps, message);
  }
}
