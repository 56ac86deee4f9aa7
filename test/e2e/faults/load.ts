import { expect } from "vitest";
import type { Topology } from "../../../infra/topology.ts";
import { type Client, createClient, type TaskAnswer } from "../../testing/client.ts";
import type { Concierge } from "../../testing/stack.ts";

/** Alice is affected by the fault; the others are not. */
export interface Users {
  alice: Client;
  bob: Client;
  carol: Client;
}

export async function createUsers({ client, url }: Concierge): Promise<Users> {
  const user = async (userId: string) => {
    const { key } = await client.json("POST", "/v1/keys", { userId });
    return createClient({ url, apiKey: String(key) });
  };
  return { alice: await user("alice"), bob: await user("bob"), carol: await user("carol") };
}

export const each = <T>(count: number, make: (i: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, i) => make(i)));

/** Twenty tasks of the two others. Their agents work for a while and print what they do. */
export async function startOthers(
  { bob, carol }: Users,
  over: (user: string, i: number) => Record<string, unknown> = () => ({}),
): Promise<() => Promise<TaskAnswer[]>> {
  const clients = { bob, carol };
  const started = await Promise.all(
    Object.entries(clients).map(([user, client]) =>
      each(10, async (i) => {
        const lines = Array.from({ length: 4 }, (_, n) => `${user} ${i} line ${n}\n`).join("");
        const script = `for n in 0 1 2 3; do echo ${user} ${i} line $n; echo work >> notes; sleep 0.3; done`;
        return { client, lines, id: (await client.start(script, over(user, i))).id };
      }),
    ),
  );
  /** Each succeeds in time with all its output. */
  return async () =>
    await Promise.all(
      started.flat().map(async ({ client, lines, id }) => {
        const task = await client.ended(id, unaffectedMs);
        expect(task).toMatchObject({ status: "succeeded", error: null, notices: [] });
        expect((await client.output(id)).toString()).toBe(lines);
        return task;
      }),
    );
}

/**
 * Much longer than thirty concurrent tasks take, because the machine may be busy. A task that waits for the fault would
 * wait longer.
 */
const unaffectedMs = 90_000;

export interface Pass {
  complete: boolean;
  durationMs: number;
  failures: string[];
}

/** The reaper passes that finished. */
export function passes({ log }: Concierge): Pass[] {
  return log
    .filter((line) => line.includes('"message":"reaper pass finished"'))
    .map((line) => (JSON.parse(line.slice(line.indexOf("{"))) as { report: Pass }).report);
}

/** No pass was killed by its function's time limit, and passes continued. */
export function expectPassesFinished(concierge: Concierge, { atLeast }: { atLeast: number }): void {
  expect(concierge.log.filter((line) => line.includes("timed out after"))).toEqual([]);
  const done = passes(concierge);
  expect(done.length).toBeGreaterThanOrEqual(atLeast);
  expect(done.filter(({ complete }) => !complete)).toEqual([]);
}

/** The functions with less time than on AWS, so that a test reaches the limit. */
export function withTimeouts(topology: Topology, timeouts: Record<string, number>): Topology {
  const functions = Object.entries(topology.functions).map(([name, definition]) => [
    name,
    { ...definition, timeoutMs: timeouts[name] ?? definition.timeoutMs },
  ]);
  return { ...topology, functions: Object.fromEntries(functions) };
}

/** Each session can be used again: no lease, slot or sandbox of the fault is in the way. */
export async function expectUsable(client: Client, ids: readonly string[]): Promise<void> {
  await Promise.all(
    ids.map(async (id) => {
      await client.continue(id, "echo again", { limits: { maxDurationMs: unaffectedMs } });
      const task = await client.ended(id, unaffectedMs);
      expect(task).toMatchObject({ status: "succeeded", turn: 2 });
      const output = await client.request("GET", `/v1/tasks/${id}/output?turn=2`);
      expect(await output.text()).toBe("again\n");
    }),
  );
}
