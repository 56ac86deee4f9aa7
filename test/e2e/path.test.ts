import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient } from "../testing/client.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

let concierge: Concierge;
beforeAll(async () => {
  concierge = await startConcierge();
});
afterAll(async () => await concierge[Symbol.asyncDispose]());

describe("a task, from start to output", () => {
  it("succeeds with its output in its own sandbox", async () => {
    const { client } = concierge;
    const { id } = await client.start("echo hello");
    const task = await client.ended(id);
    expect(task).toMatchObject({
      status: "succeeded",
      sandbox: { origin: "cold", epoch: 1 },
      result: { exitCode: 0, text: "hello\n", pushed: false },
      error: null,
    });
    expect(task.phases.map(({ status, by }) => `${status} by ${by}`)).toEqual([
      "queued by api",
      "provisioning by worker",
      "running by worker",
      "succeeded by runner",
    ]);
    expect((await client.output(id)).toString()).toBe("hello\n");
    const events = await client.events(id);
    expect(events.map(({ type, status, step, text }) => `${type} ${status ?? step ?? text}`)).toEqual([
      "status queued",
      "status provisioning",
      "progress creating",
      "progress launching",
      "progress environment",
      "status running",
      "output hello\n",
      "status succeeded",
    ]);
  });

  it("fails with its script's exit code", async () => {
    const { client } = concierge;
    const { id } = await client.start("echo out; echo err >&2; exit 7");
    const task = await client.ended(id);
    expect(task).toMatchObject({
      status: "failed",
      result: { exitCode: 7 },
      error: { code: "agent_failed" },
    });
    const streams = (await client.events(id))
      .filter(({ type }) => type === "output")
      .map(({ stream, text }) => [stream, text]);
    expect(streams).toEqual([
      ["stdout", "out\n"],
      ["stderr", "err\n"],
    ]);
  });

  it("runs isolated: not as root, own home, own processes, no host environment", async () => {
    const { client } = concierge;
    const script =
      'id -u; echo "$HOME"; pwd; touch /usr/x 2>/dev/null && echo wrote; ls /proc | grep -c "^[0-9]"; env | grep -c SST_';
    const { id } = await client.start(script);
    await client.ended(id);
    const [uid, home, cwd, processes, secrets] = (await client.output(id)).toString().split("\n");
    expect([uid, home, cwd, secrets]).toEqual(["1000", "/home/vercel-sandbox", "/vercel/sandbox", "0"]);
    expect(Number(processes)).toBeLessThan(15);
  });

  it("gets its env, which is masked in output and never stored in clear", async () => {
    const { client, dataDir, log } = concierge;
    const secret = "correct-horse-battery-staple";
    const { id } = await client.start('echo "got $SECRET"; printf %s "$SECRET" | wc -c', {
      env: { SECRET: secret },
    });
    await client.ended(id);
    expect((await client.output(id)).toString()).toBe(`got ***\n${secret.length}\n`);
    expect(JSON.stringify(await client.get(id))).not.toContain(secret);
    expect(log.join("\n")).not.toContain(secret);
    const found = await grep(join(dataDir, "dynamodb"), secret);
    expect(found).toEqual([]);
  });

  it("reuses the session's sandbox with its files", async () => {
    const { client } = concierge;
    const sessionKey = "kept";
    const first = await client.start("echo kept > note", { sessionKey });
    await client.ended(first.id);
    const second = await client.start("cat note", { sessionKey });
    const task = await client.ended(second.id);
    expect(task.sandbox).toMatchObject({ origin: "reused", epoch: 1 });
    expect((await client.output(second.id)).toString()).toBe("kept\n");
  });

  it("removes the sandbox with keepAlive: false", async () => {
    const { client } = concierge;
    const { id } = await client.start("true", { keepAlive: false });
    const { sandbox } = await client.ended(id);
    await expect
      .poll(() => concierge.provider.probe(sandbox?.name ?? ""), { timeout: 10_000 })
      .toEqual({ health: "gone" });
  });

  it("20 concurrent tasks each end with exactly their own output", async () => {
    const { client } = concierge;
    const lines = (i: number) => Array.from({ length: 200 }, (_, n) => `task ${i} line ${n}`).join("\n");
    const started = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        client.start(`for n in $(seq 0 199); do echo "task ${i} line $n"; done`),
      ),
    );
    const ended = await Promise.all(started.map(({ id }) => client.ended(id, 60_000)));
    expect(ended.map(({ status }) => status)).toEqual(Array(20).fill("succeeded"));
    const outputs = await Promise.all(started.map(({ id }) => client.output(id)));
    expect(outputs.map(String)).toEqual(started.map((_, i) => `${lines(i)}\n`));
  });
});

describe("output of any size and kind", () => {
  it.each([
    ["50 MB", "yes 'fifty megabytes of output, and every byte of it' | head -c 52428800", 52_428_800],
    ["binary", "(head -c 1999999 /dev/urandom; echo) > r; cat r; sha256sum < r >&2", undefined],
    ["a line of 5 MB", "head -c 5000000 /dev/zero | tr '\\0' x", 5_000_000],
    ["no newline at the end", "printf 'no newline'", 10],
  ])(
    "is taken whole: %s",
    async (what, script, size) => {
      const { client } = concierge;
      const { id } = await client.start(script, { limits: { maxDurationMs: 120_000 } });
      const task = await client.ended(id, 120_000);
      expect(task.status).toBe("succeeded");
      expect(task.notices).toEqual([]);
      const output = await client.output(id);
      if (size !== undefined) expect(output.length).toBe(size);
      if (what === "binary") {
        const digest = output.subarray(2_000_000).toString().slice(0, 64);
        expect(createHash("sha256").update(output.subarray(0, 2_000_000)).digest("hex")).toBe(digest);
      }
      if (what === "50 MB") {
        const pattern = Buffer.from("fifty megabytes of output, and every byte of it\n");
        expect(output.equals(Buffer.alloc(output.length, pattern))).toBe(true);
      }
    },
    150_000,
  );

  it("keeps the api's and the runner's memory flat", async () => {
    const { client, processes } = concierge;
    const { id } = await client.start("head -c 52428800 /dev/zero");
    let peak = 0;
    await client.until(
      id,
      ({ status }) => {
        for (const { pid, name } of processes())
          if (name.startsWith("Api")) peak = Math.max(peak, residentMb(pid));
        return status === "succeeded";
      },
      120_000,
    );
    expect(peak).toBeGreaterThan(0);
    expect(peak).toBeLessThan(400);
  }, 150_000);
});

describe("output beyond the cap", () => {
  it("is cut, and a notice says how much", async () => {
    await using small = await startConcierge({ env: { AGENT_MAX_OUTPUT_BYTES: "100000" } });
    const { id } = await small.client.start("head -c 150000 /dev/zero | tr '\\0' x");
    const task = await small.client.ended(id);
    expect(task).toMatchObject({ status: "succeeded", error: null });
    expect((await small.client.output(id)).length).toBe(100_000);
    expect(task.notices).toMatchObject([{ code: "output_cut", turn: 1 }]);
    expect(task.notices[0]?.detail).toContain("50000 bytes");
  });
});

describe("two users", () => {
  it("do not see each other's tasks or share sessions", async () => {
    const { client } = concierge;
    const { key } = (await client.json("POST", "/v1/keys", { userId: "bob" })) as { key: string };
    const bob = createClient({ url: client.url, apiKey: key });
    const mine = await client.start("echo mine > secret", { sessionKey: "same" });
    await client.ended(mine.id);
    const theirs = await bob.start("ls; echo done", { sessionKey: "same" });
    expect((await bob.ended(theirs.id)).sandbox?.name).not.toBe((await client.get(mine.id)).sandbox?.name);
    expect((await bob.output(theirs.id)).toString()).toBe("done\n");
    expect((await bob.request("GET", `/v1/tasks/${mine.id}`)).status).toBe(404);
    expect((await bob.request("POST", `/v1/tasks/${mine.id}/stop`)).status).toBe(404);
  });
});

async function grep(directory: string, needle: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const texts = await Promise.all(files.map(async (file) => [file, await readFile(file)] as const));
  return texts.filter(([, bytes]) => bytes.includes(needle)).map(([file]) => file);
}

function residentMb(pid: number): number {
  try {
    const [, kilobytes] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return Number(kilobytes ?? 0) / 1024;
  } catch {
    return 0;
  }
}
