import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createClient } from "../testing/client.ts";
import { startDev } from "../testing/dev.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

let concierge: Concierge;
beforeEach(async () => {
  concierge = await startConcierge();
});
afterEach(async () => await concierge[Symbol.asyncDispose]());

describe("kill -9", () => {
  it("of the worker during a create: another worker adopts the sandbox, and the task ends", async () => {
    const { client, control, kill } = concierge;
    await control("PUT", "/latency", { createMs: 1500 });
    const { id } = await client.start("echo survived");
    await client.until(id, ({ status }) => status === "provisioning");
    await expect.poll(() => countOf(concierge, "createSandbox"), { timeout: 10_000 }).toBe(1);
    kill("Worker");

    const task = await client.ended(id, 60_000);
    expect(task.status).toBe("succeeded");
    expect(task.phases.map(({ status, note }) => [status, note])).toContainEqual([
      "provisioning",
      "taken over from a worker that died",
    ]);
    expect((await client.output(id)).toString()).toBe("survived\n");
  });

  it("of the worker right after its launch: the script runs once", async () => {
    const { client, control, kill } = concierge;
    const { id } = await client.start("true", { sessionKey: "launched" });
    await client.ended(id);
    // Inspecting the sandbox is a command too: from here on the launch is the only one.
    const known = async () => (await client.json("GET", "/v1/sessions/launched")).environment;
    await expect.poll(known, { timeout: 20_000 }).not.toBeNull();
    const before = await countOf(concierge, "runCommand");
    await control("POST", "/faults", {
      route: "runCommand",
      effect: { type: "commitLate", delayMs: 60_000 },
    });
    await client.continue(id, 'echo "once $$"; echo x >> /tmp/runs; sleep 2; cat /tmp/runs');
    await expect.poll(() => countOf(concierge, "runCommand"), { timeout: 10_000 }).toBe(before + 1);
    kill("Worker");

    expect((await client.ended(id, 60_000)).status).toBe("succeeded");
    expect((await client.output(id)).toString()).toMatch(/^once \d+\nx\n$/);
  });

  it("of the api while output streams in: nothing is lost or repeated", async () => {
    const { client, kill } = concierge;
    const { id } = await client.start("for n in $(seq 1 300); do echo line $n; sleep 0.01; done");
    for (const seen of [20, 120]) {
      await expect.poll(() => lines(concierge, id), { timeout: 20_000, interval: 20 }).toBeGreaterThan(seen);
      kill("Api");
    }
    expect((await client.ended(id, 60_000)).status).toBe("succeeded");
    const wanted = Array.from({ length: 300 }, (_, n) => `line ${n + 1}\n`).join("");
    expect((await client.output(id)).toString()).toBe(wanted);
    const texts = (await client.events(id)).filter(({ type }) => type === "output").map(({ text }) => text);
    expect(texts.join("")).toBe(wanted);
  });
});

describe("a restart on the same data directory", { timeout: 90_000 }, () => {
  it("keeps tasks and output, and continues the session", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "concierge-again-"));
    try {
      const first = await startDev({ dataDir });
      const before = createClient(first);
      const { id } = await before.start("echo before", { sessionKey: "s" });
      await before.ended(id);
      const listed = await before.json("GET", "/v1/tasks");
      expect(await first.end("SIGTERM")).toEqual({ code: 0, left: [] });

      const second = await startDev({ dataDir });
      expect(second.apiKey).toBe(first.apiKey);
      const after = createClient(second);
      expect(await after.json("GET", "/v1/tasks")).toEqual(listed);
      expect((await after.output(id)).toString()).toBe("before\n");
      const next = await after.start("echo after", { sessionKey: "s" });
      expect((await after.ended(next.id)).status).toBe("succeeded");
      expect(await second.end("SIGINT")).toEqual({ code: 0, left: [] });
    } finally {
      await rm(dataDir, { recursive: true, force: true });
    }
  });

  it("after kill -9 leaves no process alive, and handles queued and running tasks", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "concierge-killed-"));
    try {
      const first = await startDev({ dataDir, args: ["--reap-every", "500"] });
      const before = createClient(first);
      const running = await before.start("echo started; sleep 1000", { limits: { maxDurationMs: 6000 } });
      await before.until(running.id, ({ status }) => status === "running");
      expect(await first.end("SIGKILL")).toMatchObject({ left: [] });

      const second = await startDev({ dataDir, args: ["--reap-every", "500"] });
      const after = createClient(second);
      const task = await after.ended(running.id, 60_000);
      expect(["sandbox_lost", "deadline_exceeded"]).toContain(task.error?.code);
      expect(await second.end("SIGTERM")).toEqual({ code: 0, left: [] });
    } finally {
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});

async function countOf({ control }: Concierge, route: string): Promise<number> {
  const stats = (await (await control("GET", "/stats")).json()) as {
    routes: Record<string, { requests: number }>;
  };
  return stats.routes[route]?.requests ?? 0;
}

/** While the api is down there is nothing new. */
async function lines({ client }: Concierge, id: string): Promise<number> {
  const output = await client.output(id).catch(() => Buffer.alloc(0));
  return output.toString().split("\n").length;
}
