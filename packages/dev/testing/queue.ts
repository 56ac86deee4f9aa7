/** A queue function that does what the body of each message says. */
import { existsSync } from "node:fs";
import { request } from "node:http";
import type { SQSEvent } from "aws-lambda";
import { note } from "./notes.ts";

let concurrent = 0;

export async function handler(event: SQSEvent): Promise<unknown> {
  concurrent++;
  note({ at: "start", pid: process.pid, concurrent, records: event.Records });
  try {
    return await act(event);
  } finally {
    concurrent--;
    note({ at: "end", bodies: event.Records.map(({ body }) => body) });
  }
}

async function act(event: SQSEvent): Promise<unknown> {
  const firstTime = event.Records.every(({ attributes }) => attributes.ApproximateReceiveCount === "1");
  const bodies = event.Records.map(({ body }) => body);
  if (bodies.includes("throw")) throw new Error("refused");
  if (bodies.includes("nonsense")) return { batchItemFailures: [{ itemIdentifier: "nobody" }] };
  if (bodies.includes("die once") && firstTime) process.kill(process.pid, "SIGKILL");
  if (bodies.includes("hang once") && firstTime) await new Promise(() => {});
  if (bodies.includes("hold")) await gate();
  if (bodies.includes("late once") && firstTime) await actLate();
  const failed = event.Records.filter(({ body }) => body === "fail");
  return { batchItemFailures: failed.map(({ messageId }) => ({ itemIdentifier: messageId })) };
}

/** Waits beyond its timeout, then tries to change something. */
async function actLate(): Promise<void> {
  await gate("late");
  const url = `http://127.0.0.1:${process.env.FIXTURE_GIVEN}/`;
  const calls = [
    () => fetch(url),
    () =>
      new Promise((resolve, reject) => request(url).once("response", resolve).once("error", reject).end()),
  ];
  for (const call of calls) {
    try {
      await call();
      note({ at: "late", outcome: "sent" });
    } catch (error) {
      note({ at: "late", outcome: error instanceof Error ? error.name : "unknown error" });
    }
  }
}

/** Waits until the test opens the gate. */
async function gate(name = "open"): Promise<void> {
  while (!existsSync(`${process.env.FIXTURE_NOTES}.${name}`))
    await new Promise((next) => setTimeout(next, 10));
}
