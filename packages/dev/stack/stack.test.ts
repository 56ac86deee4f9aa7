import { once } from "node:events";
import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import {
  DescribeTableCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
} from "@aws-sdk/client-dynamodb";
import { GetQueueAttributesCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { describe, expect, test } from "vitest";
import { startLocalStack } from "../index.ts";
import { processStart } from "../processes/process-start.ts";
import { processTree } from "../testing/process-tree.ts";
import { startFixture, temporaryDirectory, until } from "../testing/stack.ts";
import { fixtureTopology, http, table } from "../testing/topology.ts";
import { clientConfig } from "./aws.ts";

type Fixture = Awaited<ReturnType<typeof startFixture>>;

const get = async <Answer>(stack: { url: string }, path: string): Promise<Answer> =>
  (await (await fetch(new URL(path, stack.url))).json()) as Answer;

function pidOf(stack: Fixture, name: string): number {
  const found = stack.processes().find((one) => one.name === name);
  if (!found) throw new Error(`no process ${name}`);
  return found.pid;
}

async function kill(stack: Fixture, name: string): Promise<void> {
  const pid = pidOf(stack, name);
  process.kill(pid, "SIGKILL");
  await until(() => !stack.processes().some((one) => one.pid === pid), `${name} is gone`);
}

describe("a function's process", () => {
  test("that is killed during a request answers 502, and the next request gets another", async () => {
    await using stack = await startFixture();
    const dead = pidOf(stack, "Api#1");
    const cut = await fetch(new URL("/die", stack.url));
    expect([cut.status, await cut.json()]).toEqual([502, { message: "Internal Server Error" }]);
    const { pid } = await get<{ pid: number }>(stack, "/memory");
    expect(pid).toBeTypeOf("number");
    expect(pid).not.toBe(dead);
    expect(stack.log).toContain("Api#1 was ended by SIGKILL; restarting");
  });

  test("that is killed during its response breaks the connection", async () => {
    await using stack = await startFixture();
    const response = await fetch(new URL("/die-in-the-middle", stack.url));
    const body = response.body?.getReader();
    await body?.read();
    await fetch(new URL("/release", stack.url), { method: "POST" });
    await expect(body?.read()).rejects.toThrow();
  });

  test("that cannot start is restarted with backoff, and requests wait for a limited time", async () => {
    await using stack = await startFixture();
    const broken = `${stack.notesFile}.broken`;
    await writeFile(broken, "");
    await kill(stack, "Api#1");
    const tooEarly = fetch(new URL("/healthz", stack.url));
    const inTime = until(
      () => stack.log.some((line) => line.endsWith("restarting in 400 ms")),
      "a longer wait",
    )
      .then(() => rm(broken))
      .then(() => get(stack, "/healthz"));
    await expect(inTime).resolves.toEqual({ status: "ok" });
    expect((await tooEarly).status).toBe(200);
    const delays = stack.log.flatMap((line) => /^Api#1 .* restarting in (\d+) ms$/.exec(line)?.[1] ?? []);
    expect(delays.slice(0, 3)).toEqual(["100", "200", "400"]);
    await writeFile(broken, "");
    await kill(stack, "Api#1");
    expect((await fetch(new URL("/healthz", stack.url))).status).toBe(503);
  });

  test("that never loads fails the start with its output and leaves no process", async () => {
    await using directory = await temporaryDirectory();
    const before = processTree(process.pid);
    const start = startLocalStack({
      topology: fixtureTopology({ Broken: { ...http, handler: "packages/dev/testing/broken.handler" } }),
      dataDir: directory.path,
      env: { PATH: process.env.PATH },
    });
    await expect(start).rejects.toMatchObject({
      message: "Broken#1 exited with 1 before it was ready",
      cause: expect.stringContaining("this module does not load"),
    });
    await expect(stat(join(directory.path, "dev.lock"))).rejects.toThrow("ENOENT");
    expect(processTree(process.pid)).toEqual(before);
  });

  test("is one of several that are used in turn and share no memory", async () => {
    await using stack = await startFixture({ apiProcesses: 3, readyPath: "/healthz" });
    const answers: { pid: number; requests: number }[] = [];
    for (let count = 0; count < 6; count++) answers.push(await get(stack, "/memory"));
    expect(new Set(answers.map(({ pid }) => pid)).size).toBe(3);
    expect(answers.map(({ requests }) => requests)).toEqual([1, 1, 1, 2, 2, 2]);
  });

  test("that blocks its thread is replaced after the timeout", async () => {
    const topology = fixtureTopology({ Api: { ...http, timeoutMs: 1500 } });
    await using stack = await startFixture({ topology });
    const blocked = pidOf(stack, "Api#1");
    expect((await fetch(new URL("/block", stack.url))).status).toBe(504);
    expect(await get(stack, "/healthz")).toEqual({ status: "ok" });
    await until(() => processStart(blocked) === undefined, "the blocked process is gone");
  });
});

describe("a function's environment", () => {
  test("contains what its definition lists and what Lambda sets, nothing else", async () => {
    await using stack = await startFixture({
      env: { FIXTURE_GIVEN: "given", FIXTURE_KEPT: "kept", HOME: "/h" },
    });
    const environment = await get<Record<string, string>>(stack, "/environment");
    expect(Object.keys(environment).sort()).toEqual([
      "AWS_ACCESS_KEY_ID",
      "AWS_CONFIG_FILE",
      "AWS_DEFAULT_REGION",
      "AWS_EC2_METADATA_DISABLED",
      "AWS_ENDPOINT_URL_DYNAMODB",
      "AWS_ENDPOINT_URL_SQS",
      "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
      "AWS_LAMBDA_FUNCTION_NAME",
      "AWS_LAMBDA_FUNCTION_VERSION",
      "AWS_LAMBDA_LOG_GROUP_NAME",
      "AWS_LAMBDA_LOG_STREAM_NAME",
      "AWS_REGION",
      "AWS_SECRET_ACCESS_KEY",
      "AWS_SHARED_CREDENTIALS_FILE",
      "CONCIERGE_STAGE",
      "CONCIERGE_URL",
      "FIXTURE_ASSET",
      "FIXTURE_GIVEN",
      "FIXTURE_NOTES",
      "HOME",
      "LAMBDA_TASK_ROOT",
      "PATH",
      "SST_RESOURCE_AdminApiKey",
      "SST_RESOURCE_App",
      "SST_RESOURCE_Jobs",
      "SST_RESOURCE_SealingKey",
      "SST_RESOURCE_Table",
      "_HANDLER",
    ]);
    expect(environment).toMatchObject({
      FIXTURE_GIVEN: "given",
      CONCIERGE_STAGE: "dev",
      CONCIERGE_URL: stack.url,
      AWS_ENDPOINT_URL_DYNAMODB: stack.endpoints.dynamodb,
      AWS_ENDPOINT_URL_SQS: stack.endpoints.sqs,
    });
    const bundled: { note: unknown } = await import(environment.FIXTURE_ASSET ?? "");
    expect(bundled.note).toBeTypeOf("function");
  });

  test("gives SST's `Resource` only what the function was granted", async () => {
    await using stack = await startFixture({ env: { CONCIERGE_API_KEY: "0123456789abcdef" } });
    expect(await get(stack, "/resource/App")).toEqual({ name: "concierge", stage: "dev" });
    expect(await get(stack, "/resource/Table")).toEqual({ name: stack.tableName, type: "sst.aws.Dynamo" });
    expect(await get(stack, "/resource/Jobs")).toEqual({ url: stack.queueUrls.Jobs, type: "sst.aws.Queue" });
    expect(await get(stack, "/resource/AdminApiKey")).toMatchObject({ value: "0123456789abcdef" });
    expect(stack.apiKey).toBe("0123456789abcdef");
    expect((await fetch(new URL("/resource/Other", stack.url))).status).toBe(404);
  });
});

describe("the engines", () => {
  const item = { pk: { S: "p" }, sk: { S: "s" }, owner: { S: "o" }, dueAt: { N: "1" } };
  const read = async ({ endpoints, credentials, tableName: TableName }: Fixture) => {
    const client = new DynamoDBClient(clientConfig(endpoints.dynamodb, credentials));
    const { Item } = await client.send(new GetItemCommand({ TableName, Key: { pk: item.pk, sk: item.sk } }));
    return Item;
  };
  const write = async ({ endpoints, credentials, tableName: TableName }: Fixture) => {
    const client = new DynamoDBClient(clientConfig(endpoints.dynamodb, credentials));
    await client.send(new PutItemCommand({ TableName, Item: item }));
  };

  test("have the topology's table with its keys and indexes", async () => {
    await using stack = await startFixture();
    const client = new DynamoDBClient(clientConfig(stack.endpoints.dynamodb, stack.credentials));
    const { Table } = await client.send(new DescribeTableCommand({ TableName: stack.tableName }));
    expect(Table).toMatchObject({
      TableStatus: "ACTIVE",
      KeySchema: [
        { AttributeName: "pk", KeyType: "HASH" },
        { AttributeName: "sk", KeyType: "RANGE" },
      ],
      GlobalSecondaryIndexes: [{ IndexName: "owner", Projection: { ProjectionType: "ALL" } }],
    });
  });

  test("have the topology's queues with their delay, timeout and dead-letter queue", async () => {
    const queues = {
      Slow: {
        delayMs: 1500,
        visibilityTimeoutMs: 130_000,
        maxReceives: 5,
        retentionMs: 86_400_000,
        deadLetterRetentionMs: 86_400_000,
      },
    };
    await using stack = await startFixture({ topology: { ...fixtureTopology(), queues } });
    const client = new SQSClient(clientConfig(stack.endpoints.sqs, stack.credentials));
    const { Attributes } = await client.send(
      new GetQueueAttributesCommand({ QueueUrl: stack.queueUrls.Slow, AttributeNames: ["All"] }),
    );
    expect(Attributes).toMatchObject({
      DelaySeconds: "2",
      VisibilityTimeout: "130",
      MessageRetentionPeriod: "86400",
      RedrivePolicy: JSON.stringify({
        deadLetterTargetArn: "arn:aws:sqs:us-east-1:000000000000:concierge-dev-SlowDlq",
        maxReceiveCount: 5,
      }),
    });
  });

  test("listen on loopback only", async () => {
    await using stack = await startFixture();
    const ports = [stack.url, stack.endpoints.dynamodb, stack.endpoints.sqs].map((url) =>
      Number(new URL(url).port),
    );
    const listening = (await readFile("/proc/net/tcp", "utf8")).split("\n").flatMap((line) => {
      const [, address = "", , state] = line.trim().split(/\s+/);
      const [host, port = ""] = address.split(":");
      return state === "0A" && ports.includes(Number.parseInt(port, 16)) ? [host] : [];
    });
    expect(listening.sort()).toEqual(["0100007F", "0200007F", "0200007F"]);
  });

  test("keep data and secrets across a restart of the stack", async () => {
    await using directory = await temporaryDirectory();
    const first = await startFixture({ dataDir: directory.path });
    await write(first);
    await first[Symbol.asyncDispose]();
    await using second = await startFixture({ dataDir: directory.path });
    expect(await read(second)).toEqual(item);
    expect(second.apiKey).toBe(first.apiKey);
    expect(second.apiKey).toMatch(/^ck_dev_[\w-]{43}$/);
    expect((await stat(join(directory.path, "secrets.json"))).mode & 0o777).toBe(0o600);
  });

  test("restart on the same port after a kill, with the table's data and the queues", async () => {
    await using stack = await startFixture();
    await write(stack);
    await Promise.all([kill(stack, "DynamoDB"), kill(stack, "SQS")]);
    await until(() => read(stack).catch(() => undefined), "the table is back");
    const client = new SQSClient(clientConfig(stack.endpoints.sqs, stack.credentials));
    const send = new SendMessageCommand({ QueueUrl: stack.queueUrls.Jobs, MessageBody: "hello" });
    await until(() => client.send(send).catch(() => undefined), "the queue is back");
  });

  test("survive a caller that disconnects in the middle of a request", async () => {
    await using stack = await startFixture();
    const before = pidOf(stack, "DynamoDB");
    const { port, hostname } = new URL(stack.endpoints.dynamodb);
    const socket = connect(Number(port), hostname);
    await once(socket, "connect");
    socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf");
    socket.resetAndDestroy();
    await write(stack);
    expect(await read(stack)).toEqual(item);
    expect(pidOf(stack, "DynamoDB")).toBe(before);
  });

  test("refuse a data directory whose table has other keys", async () => {
    await using directory = await temporaryDirectory();
    const first = await startFixture({ dataDir: directory.path });
    await first[Symbol.asyncDispose]();
    const indexes = { other: { hash: "owner", range: "dueAt", projection: "all" } };
    const changed = { ...fixtureTopology(), table: { Table: { ...table.Table, indexes } } };
    await expect(startFixture({ dataDir: directory.path, topology: changed as never })).rejects.toThrow(
      "table Table in the data directory has other keys or indexes than the topology: use a new --data-dir",
    );
  });
});

describe("the engines' guard", () => {
  const key = { pk: { S: "p" }, sk: { S: "s" } };

  test("allows what a function's grants list and names what they do not", async () => {
    const grants = [{ on: "Table", actions: ["dynamodb:PutItem"] }];
    await using stack = await startFixture({
      topology: fixtureTopology({ Api: { ...http, grants } }),
    });
    const { AWS_ACCESS_KEY_ID: accessKeyId = "", AWS_SECRET_ACCESS_KEY: secretAccessKey = "" } = await get<
      Record<string, string>
    >(stack, "/environment");
    const client = new DynamoDBClient(
      clientConfig(stack.endpoints.dynamodb, { accessKeyId, secretAccessKey }),
    );
    const Item = { ...key, text: { S: "x".repeat(300_000) } };
    await client.send(new PutItemCommand({ TableName: stack.tableName, Item }));
    const refused = client.send(new GetItemCommand({ TableName: stack.tableName, Key: key }));
    await expect(refused).rejects.toMatchObject({
      name: "AccessDeniedException",
      message: expect.stringContaining("is not authorized to perform: dynamodb:GetItem"),
    });
    await expect
      .poll(() => stack.log.join("\n"))
      .toContain("[DynamoDB] refused: User: arn:aws:sts::000000000000:assumed-role/");
  });

  test("refuses unknown callers", async () => {
    await using stack = await startFixture();
    const dynamodb = new DynamoDBClient(clientConfig(stack.endpoints.dynamodb));
    const sqs = new SQSClient(clientConfig(stack.endpoints.sqs));
    const read = dynamodb.send(new GetItemCommand({ TableName: stack.tableName, Key: key }));
    await expect(read).rejects.toMatchObject({ name: "UnrecognizedClientException" });
    const send = sqs.send(new SendMessageCommand({ QueueUrl: stack.queueUrls.Jobs, MessageBody: "x" }));
    await expect(send).rejects.toMatchObject({ name: "UnrecognizedClientException" });
    expect((await fetch(stack.endpoints.dynamodb)).status).toBe(400);
    expect((await fetch(stack.endpoints.sqs)).status).toBe(400);
  });
});

describe("the sandbox API", () => {
  const provider = ["VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID"];
  const topology = fixtureTopology({ Api: { ...http, environment: provider } });
  const given = async (stack: Fixture) => {
    const environment = await get<Record<string, string>>(stack, "/environment");
    return Object.fromEntries(Object.entries(environment).filter(([name]) => name.startsWith("VERCEL_")));
  };

  test("starts for a function that needs the provider, and restarts on its port", async () => {
    await using stack = await startFixture({ topology });
    const { sandbox = "" } = stack.endpoints;
    expect(await given(stack)).toEqual({
      VERCEL_TOKEN: stack.sandboxToken,
      VERCEL_TEAM_ID: "local",
      VERCEL_PROJECT_ID: "local",
      VERCEL_SANDBOX_URL: sandbox,
    });
    await kill(stack, "Sandbox");
    await until(() => fetch(sandbox).catch(() => undefined), "it answers again");
    expect(stack.log.join("\n")).toMatch(/^Sandbox was ended by SIGKILL; restarting/m);
  });

  test("is not started with keys of the real provider", async () => {
    const env = { VERCEL_TOKEN: "t", VERCEL_TEAM_ID: "team", VERCEL_PROJECT_ID: "p" };
    await using stack = await startFixture({ topology, env });
    expect(await given(stack)).toEqual(env);
    expect(stack.endpoints.sandbox).toBeUndefined();
    expect(stack.processes().map(({ name }) => name)).not.toContain("Sandbox");
  });
});
