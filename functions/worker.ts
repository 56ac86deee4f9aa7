import { readFile } from "node:fs/promises";
import { provision, release, type SandboxDeps, type WorkMessage } from "@concierge/core";
import { createVercelProvider } from "@concierge/provider";
import { parseWorkMessage } from "@concierge/queue";
import type { SQSBatchResponse, SQSEvent } from "aws-lambda";
import { composeSealingDeps } from "./compose.ts";
import { required } from "./environment.ts";

const deps = await composeSandboxDeps();

export async function handler(event: SQSEvent): Promise<SQSBatchResponse> {
  const failed = await Promise.all(
    event.Records.map(async ({ messageId, body }) => {
      try {
        await work(parseWorkMessage(body));
        return [];
      } catch (error) {
        console.error("work failed", error);
        return [{ itemIdentifier: messageId }];
      }
    }),
  );
  return { batchItemFailures: failed.flat() };
}

async function work(message: WorkMessage): Promise<void> {
  switch (message.kind) {
    case "provision":
      return await provision(deps, message);
    case "release":
      return await release(deps, message);
  }
}

async function composeSandboxDeps(): Promise<SandboxDeps> {
  const base = composeSealingDeps();
  return {
    ...base,
    provider: createVercelProvider({
      token: required("VERCEL_TOKEN"),
      teamId: required("VERCEL_TEAM_ID"),
      projectId: required("VERCEL_PROJECT_ID"),
      baseUrl: base.config.sandboxUrl,
    }),
    runner: await readFile(required("RUNNER_FILE"), "utf8"),
    callbackUrl: required("CONCIERGE_URL"),
  };
}
