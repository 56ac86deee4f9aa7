import { readdirSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { DynamoDBClient, ScanCommand } from "@aws-sdk/client-dynamodb";
import { clientConfig } from "@concierge/dev";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type GitServer, startGitServer } from "../testing/git-server.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

/**
 * Every secret starts with this. Each is where it has to be: in the worker, sealed in the table, in the agent's
 * process.
 */
const mark = "canary-7f3a";
const secrets = { agent: `${mark}-agent-key`, git: `${mark}-git-token`, env: `${mark}-task-env` };

/** Prints all it knows, like an agent that tries to leak its secrets. */
const fakeClaude = `#!/bin/sh
cat > /dev/null
echo "$ANTHROPIC_API_KEY $SECRET" >&2
echo '{"type":"system","subtype":"init","session_id":"conversation-1"}'
printf '{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"text","text":"%s"}],"usage":{}}}\\n' "$ANTHROPIC_API_KEY"
echo "changed" > changed.txt
while [ ! -e /tmp/go ]; do sleep 0.1; done
printf '{"type":"result","is_error":false,"result":"done with %s","total_cost_usd":0.01,"usage":{}}\\n' "$SECRET"
`;
const setup = `mkdir -p bin && printf '%s' '${fakeClaude.replaceAll("'", `'"'"'`)}' > bin/claude && chmod +x bin/claude`;
const path = "/vercel/sandbox/bin:/usr/local/bin:/usr/bin:/bin";

let concierge: Concierge;
let git: GitServer;
const hooks: string[] = [];
const receiver = createServer((request, response) => {
  void text(request).then((body) => {
    hooks.push(JSON.stringify(request.headers) + body);
    response.writeHead(204).end();
  });
});

beforeAll(async () => {
  await new Promise<void>((listening) => receiver.listen(0, "127.0.0.1", listening));
  [concierge, git] = await Promise.all([
    startConcierge({ env: { ANTHROPIC_API_KEY: secrets.agent, SANDBOX_SETUP: setup }, reapEveryMs: 1000 }),
    startGitServer({ token: secrets.git }),
  ]);
});
afterAll(async () => {
  receiver.close();
  await concierge[Symbol.asyncDispose]();
  await git.close();
});

/** Searches every place where a secret must not be, and returns where it was found. */
async function search(id: string): Promise<string[]> {
  const { client, dataDir, log } = concierge;
  const places: Record<string, string> = {
    log: log.join("\n"),
    webhooks: hooks.join("\n"),
    events: JSON.stringify(await client.events(id)),
    output: String(await client.output(id)),
    task: JSON.stringify(await client.get(id)),
    session: JSON.stringify(await client.json("GET", "/v1/sessions/room")),
    table: JSON.stringify(await tableDump()),
    "a problem": await (
      await client.request("POST", "/v1/tasks", { env: { SECRET: secrets.env }, prompt: 1 })
    ).text(),
    arguments: commandLines(),
  };
  const found = Object.entries(places).flatMap(([place, content]) => (content.includes(mark) ? [place] : []));
  return [...found, ...(await files(dataDir))];
}

async function tableDump(): Promise<unknown[]> {
  const client = new DynamoDBClient(clientConfig(concierge.endpoints.dynamodb, concierge.credentials));
  const { Items = [] } = await client.send(new ScanCommand({ TableName: concierge.tableName }));
  client.destroy();
  // Bytes as text.
  return Items.map((item) =>
    JSON.stringify(item, (_, value) =>
      value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value,
    ),
  );
}

function commandLines(): string {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return pids
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "latin1");
      } catch {
        return "";
      }
    })
    .join("\n");
}

/** The files of the table, the sandboxes and their snapshots. */
async function files(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const found: string[] = [];
  for (const entry of entries.filter((one) => one.isFile())) {
    const file = join(entry.parentPath, entry.name);
    const bytes = await readFile(file).catch(() => Buffer.alloc(0));
    if (bytes.includes(mark)) found.push(`${entry.name}`);
  }
  return found;
}

describe("a secret", () => {
  it("(agent key, git credential, task env) is only where it is used; a leaked one is found", async () => {
    const { client } = concierge;
    const { url } = git.createRepo("repo", { files: { "README.md": "hello\n" } });
    const hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
    const { id } = await client.start("do it", {
      agent: "claude",
      sessionKey: "room",
      env: { SECRET: secrets.env, PATH: path },
      repo: { url, branch: "work", username: git.username, token: secrets.git },
      webhook: { url: hook },
    });
    await expect
      .poll(async () => String(await client.output(id)), { timeout: 30_000 })
      .toContain("conversation-1");
    expect(await search(id)).toEqual([]);

    await client.json("POST", "/v1/sessions/room/exec", { command: "touch", args: ["/tmp/go"] });
    const task = await client.ended(id);
    expect(task).toMatchObject({ status: "succeeded", result: { pushed: true } });
    expect(task.result?.text).toMatch(/^done with \*+$/);
    await expect.poll(() => hooks.length, { timeout: 20_000 }).toBe(1);
    const kept = await concierge.provider.probe(task.sandbox?.name ?? "");
    if (kept.health !== "healthy") throw new Error("the sandbox was not kept");
    await concierge.provider.snapshot(kept.sandbox, 600_000);
    expect(await search(id)).toEqual([]);

    const leak = { command: "sh", args: ["-c", 'echo "$LEAK" > leak'], env: { LEAK: secrets.env } };
    await client.json("POST", "/v1/sessions/room/exec", leak);
    await client.start(`echo ${secrets.agent}`);
    expect(await search(id)).toEqual(expect.arrayContaining(["table", "leak"]));
  }, 120_000);
});
