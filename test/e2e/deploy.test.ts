import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DynamoDBClient, ScanCommand } from "@aws-sdk/client-dynamodb";
import { GetQueueAttributesCommand, SQSClient } from "@aws-sdk/client-sqs";
import { bundleFunctions } from "@concierge/bundler";
import { clientConfig } from "@concierge/dev";
import type { Plugin } from "esbuild";
import { afterAll, beforeAll, expect, it } from "vitest";
import { topology } from "../../infra/topology.ts";
import { BUNDLES } from "../testing/bundles.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

/** The next version: it writes, sends and posts fields that this one does not know. */
const later: Readonly<Record<string, readonly [from: string, to: string]>> = {
  "packages/store/version.ts": ["schemaVersion = 3", "schemaVersion = 4"],
  "packages/store/table.ts": [
    "return { ...fields, schema: schemaVersion };",
    `const known = (value: unknown): unknown =>
       typeof value === "object" && value?.constructor === Object
         ? { ...Object.fromEntries(Object.entries(value).map(([name, inner]) =>
             [name, /^(steps|metadata|versions|flags)$/.test(name) ? inner : known(inner)])), later: "known later" }
         : value;
     return { ...(known(fields) as Item), schema: schemaVersion };`,
  ],
  "packages/queue/send.ts": [
    "JSON.stringify(message)",
    'JSON.stringify({ ...message, later: "known later" })',
  ],
  "packages/runner/transport/deliver.ts": [
    "JSON.stringify(post)",
    'JSON.stringify({ ...post, later: "known later" })',
  ],
  "packages/runner/output/output.ts": [
    "JSON.stringify(post)",
    'JSON.stringify({ ...post, later: "known later" })',
  ],
};

const knowingMore: Plugin = {
  name: "knowing-more",
  setup({ onLoad }) {
    onLoad(
      { filter: /packages[\\/](store|queue|runner[\\/](transport|output))[\\/]\w+\.ts$/ },
      async ({ path }) => {
        const text = await readFile(path, "utf8");
        const [, [from, to] = ["", ""]] = Object.entries(later).find(([file]) => path.endsWith(file)) ?? [];
        if (!text.includes(from)) throw new Error(`${path} is not as it is to be changed`);
        return { contents: from === "" ? text : text.replace(from, to), loader: "ts" };
      },
    );
  },
};

let directory: string;
let concierge: Concierge;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "concierge-deploy-"));
  await Promise.all([
    cp(process.env[BUNDLES] ?? "", join(directory, "now"), { recursive: true }),
    bundleFunctions(topology, join(directory, "later"), [knowingMore]),
  ]);
  await cp(join(directory, "now"), join(directory, "deployed"), { recursive: true });
  concierge = await startConcierge({ bundles: join(directory, "deployed"), reapEveryMs: 3_600_000 });
});
afterAll(async () => {
  await concierge[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

/** Harsher than Lambda, which lets running invocations end: every process of the old version is killed. */
async function deploy(version: "now" | "later"): Promise<void> {
  await rm(join(directory, "deployed"), { recursive: true });
  await cp(join(directory, version), join(directory, "deployed"), { recursive: true });
  for (const name of Object.keys(topology.functions)) concierge.kill(name);
}

const lines = 60;
const script = `for i in $(seq ${lines}); do echo line $i; sleep 0.05; done`;
const all = Array.from({ length: lines }, (_, at) => `line ${at + 1}\n`).join("");

async function untilSaid(id: string, text: string): Promise<void> {
  const { client } = concierge;
  await expect
    .poll(async () => await client.request("GET", `/v1/tasks/${id}/output`).then((r) => r.text(), String), {
      timeout: 20_000,
    })
    .toContain(text);
}

async function attributesOf(): Promise<Set<string>> {
  const client = new DynamoDBClient(clientConfig(concierge.endpoints.dynamodb, concierge.credentials));
  const { Items = [] } = await client.send(new ScanCommand({ TableName: concierge.tableName }));
  client.destroy();
  return new Set(Items.flatMap((item) => Object.keys(item)));
}

async function deadLetters(): Promise<number> {
  const client = new SQSClient(clientConfig(concierge.endpoints.sqs, concierge.credentials));
  const counts = await Promise.all(
    Object.keys(topology.queues).map(async (name) => {
      const QueueUrl = concierge.queueUrls[`${name}Dlq`];
      const AttributeNames = ["ApproximateNumberOfMessages"] as const;
      const { Attributes } = await client.send(
        new GetQueueAttributesCommand({ QueueUrl, AttributeNames: [...AttributeNames] }),
      );
      return Number(Attributes?.ApproximateNumberOfMessages);
    }),
  );
  client.destroy();
  return counts.reduce((sum, count) => sum + count, 0);
}

it("running turns survive a deploy and a rollback, and each version continues the other's", async () => {
  const { client } = concierge;
  // It has its own timer: one version armed it, and the other is woken by it.
  const limits = { inactivityMs: 2000 };

  const old = await client.start(script, { limits });
  await untilSaid(old.id, "line 5\n");
  await deploy("later");
  const next = await client.ended(old.id);
  expect(next.status).toBe("succeeded");
  expect(String(await client.output(old.id))).toBe(all);
  expect(await attributesOf()).toContain("later");

  const young = await client.start(script, { limits });
  await untilSaid(young.id, "line 5\n");
  await deploy("now");
  expect((await client.ended(young.id)).status).toBe("succeeded");
  expect(String(await client.output(young.id))).toBe(all);

  // Silent, while everything that would hear of it restarts.
  const again = await client.continue(young.id, "sleep 600", { limits: { inactivityMs: 60_000 } });
  await client.until(young.id, ({ status }) => status === "running");
  await deploy("later");
  const stopped = await client
    .until(young.id, ({ turn }) => turn === again.turn)
    .then(() => client.stop(young.id));
  expect(stopped).toMatchObject({ httpStatus: 200, status: "stopped" });
  expect(concierge.log.filter((line) => line.includes("message failed"))).toEqual([]);
  expect(await deadLetters()).toBe(0);
});
