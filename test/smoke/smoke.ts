import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../testing/client.ts";

const pollMs = 250;
/** A cold sandbox takes seconds, and many if the provider is busy. */
const stepMs = 120_000;

export interface SmokeOptions {
  url: string;
  /** An admin's key: the test creates its own user and removes it again. */
  apiKey: string;
  userId: string;
  log: (line: string) => void;
  signal: AbortSignal;
}

/** Starts a task, stops it and continues it, as a user would. Throws at the first unexpected result. */
export async function smoke({ url, apiKey, userId, log, signal }: SmokeOptions): Promise<void> {
  const admin = createClient({ url, apiKey });
  const { id: keyId, key } = (await admin.json("POST", "/v1/keys", { userId })) as {
    id: string;
    key: string;
  };
  const client = createClient({ url, apiKey: key });
  const sessionKey = `smoke-${randomUUID()}`;
  const step = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    signal.throwIfAborted();
    const began = performance.now();
    const result = await work();
    log(`${userId}: ${what}, ${Math.round(performance.now() - began)} ms`);
    return result;
  };

  try {
    const script = "echo smoke has begun; sleep 600";
    const { id } = await step("start", () => client.start(script, { agent: "shell", sessionKey }));
    await step("its first output", () => said(client, id, "smoke has begun", signal));
    await step("stop, proven", async () => {
      await client.stop(id);
      const { status, timings } = await client.ended(id, stepMs);
      if (status !== "stopped") throw new Error(`the stopped task is ${status}`);
      log(`${userId}: stopped within ${timings.stopMs} ms of the request`);
    });
    await step("continue", () => client.continue(id, "echo and goes on"));
    await step("its end", async () => {
      const { status, error } = await client.ended(id, stepMs);
      if (status !== "succeeded")
        throw new Error(`the continued task is ${status}: ${JSON.stringify(error)}`);
    });
    await step("its output", () => said(client, id, "and goes on", signal));
  } finally {
    // Clean up in any case; a failed cleanup must not hide the test's result.
    await client.request("DELETE", `/v1/sessions/${sessionKey}`).catch(() => {});
    await admin.request("DELETE", `/v1/keys/${keyId}`).catch(() => {});
  }
}

async function said(client: Client, id: string, text: string, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + stepMs;
  while (Date.now() < deadline) {
    const response = await client.request("GET", `/v1/tasks/${id}/output`);
    if (response.ok && (await response.text()).includes(text)) return;
    const { status, error } = await client.get(id);
    if (status === "failed") throw new Error(`the task failed: ${JSON.stringify(error)}`);
    await sleep(pollMs, undefined, { signal });
  }
  throw new Error(`the task did not say "${text}" in ${stepMs} ms`);
}
