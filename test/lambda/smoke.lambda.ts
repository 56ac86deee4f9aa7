import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { topology } from "../../infra/topology.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

let concierge: Concierge;
let receiver: Server;
let webhook: { url: string };
const told: unknown[] = [];

beforeAll(async () => {
  receiver = createServer(async (request, response) => {
    told.push(await json(request));
    response.writeHead(204).end();
  });
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  webhook = { url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/` };
  const runtime = new URL("./runtime.ts", import.meta.url);
  concierge = await startConcierge({ runtime, reapEveryMs: 2000 });
});
afterAll(async () => {
  await concierge[Symbol.asyncDispose]();
  receiver.close();
});

describe("the shipped bundles, in AWS's own runtime, frozen between invocations,", () => {
  it("run a turn from its start to its webhook, and the next one in the same sandbox", async () => {
    const { client } = concierge;
    const { id } = await client.start("echo hello", { webhook });
    expect(await client.ended(id)).toMatchObject({ status: "succeeded", result: { exitCode: 0 } });
    expect((await client.output(id)).toString()).toBe("hello\n");
    await expect.poll(() => told, { timeout: 20_000 }).toMatchObject([{ type: "task.succeeded" }]);

    await client.continue(id, "echo and on");
    const ended = await client.until(id, ({ turn, status }) => turn === 2 && status === "succeeded");
    expect(ended.sandbox).toMatchObject({ origin: "reused" });
    await expect.poll(() => told.length, { timeout: 20_000 }).toBe(2);
  });

  it("stop one, proven, and have streamed what it said until then", async () => {
    const { client } = concierge;
    const { id } = await client.start("echo begun; sleep 600");
    await expect.poll(async () => String(await client.output(id)), { timeout: 20_000 }).toBe("begun\n");
    expect(await client.stop(id)).toMatchObject({ httpStatus: 200, status: "stopped" });
    expect((await client.events(id)).length).toBeGreaterThan(0);
  });

  it("keep a deadline, by a timer", async () => {
    const { client } = concierge;
    const { id } = await client.start("sleep 600", { limits: { maxDurationMs: 1500 } });
    expect((await client.ended(id)).status).toBe("timed_out");
  });

  it("sweep, by their schedule and when they are told to", async () => {
    const swept = () => concierge.log.filter((line) => line.includes('"message":"reaper pass finished"'));
    await expect.poll(() => swept().length, { timeout: 20_000 }).toBeGreaterThan(1);
    expect(await concierge.client.json("POST", "/v1/reap", {})).toMatchObject({ failures: [] });
  });

  it("answer what is wrong as themselves, not as the runtime", async () => {
    const { client } = concierge;
    expect((await client.request("GET", "/v1/tasks/task_none")).status).toBe(404);
    expect((await client.request("POST", "/v1/tasks", { prompt: 1 })).status).toBe(400);
  });

  it("have all been used, and every process that has nothing to do is stopped", async () => {
    for (const name of Object.keys(topology.functions)) {
      const runtimes = concierge.processes().filter((one) => one.name.startsWith(`${name}#`));
      const clients = runtimes.flatMap(({ pid }) => childrenOf(pid));
      expect(clients.length, name).toBeGreaterThan(0);
      // The reaper may have started again at this moment.
      await expect
        .poll(() => clients.map(stateOf).every((state) => state === "T"), { timeout: 20_000 })
        .toBe(true);
    }
  });
});

/** Linux's letter for a process's state: `T` is stopped. */
function stateOf(pid: number): string | undefined {
  return /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1];
}

/** A process's children. */
function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
}
