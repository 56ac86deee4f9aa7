import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../testing/client.ts";

const pollMs = 10;
const withinMs = 30_000;

/** Resolves when a reader gets the first byte of a turn's output. */
export async function firstOutputOf(
  client: Client,
  { id, turn }: { id: string; turn: number },
): Promise<void> {
  const deadline = Date.now() + withinMs;
  while (Date.now() < deadline) {
    const response = await client.request("GET", `/v1/tasks/${id}/output?turn=${turn}`);
    if (response.ok && (await response.arrayBuffer()).byteLength > 0) return;
    await sleep(pollMs);
  }
  throw new Error(`turn ${turn} of ${id} said nothing in ${withinMs} ms`);
}
