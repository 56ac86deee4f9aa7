import { randomUUID } from "node:crypto";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { canIsolate } from "vercel-sandbox-local";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Client, createClient } from "../testing/client.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

// A task runs the user's own shell, or an agent that obeys a stranger's file. These are the ways by which it could reach
// other users and this machine. The last test runs the same attacks without isolation, where they all succeed.

interface Victim {
  /** The name of a file, a variable's value, and an argument of a process. */
  file: string;
  secret: string;
  argument: string;
  /** Of a server in the victim's sandbox. */
  port: number;
}

const abstractSocket = `concierge-test-${randomUUID()}`;
const onLoopback = createHttpServer((_request, response) => response.end("private"));
const onAbstractSocket = createServer((socket) => socket.end("private"));
let loopbackPort = 0;

beforeAll(async () => {
  await new Promise<void>((resolve) => onLoopback.listen(0, "127.0.0.1", resolve));
  await new Promise<void>((resolve) => onAbstractSocket.listen(`\0${abstractSocket}`, resolve));
  loopbackPort = (onLoopback.address() as AddressInfo).port;
});

afterAll(() => {
  onLoopback.close();
  onAbstractSocket.close();
});

/** Each command prints something if the attack succeeds. */
function attacksOn(at: Concierge, victim: Victim): Record<string, string> {
  const { sandbox = "", dynamodb, sqs } = at.endpoints;
  const worker = at.processes().find(({ name }) => name.startsWith("Worker"))?.pid ?? 0;
  const get = (url: string, ...headers: string[]) =>
    `curl -sS -m 5 -i ${headers.map((header) => `-H '${header}'`).join(" ")} '${url}'`;
  const signed = `authorization: AWS4-HMAC-SHA256 Credential=${at.credentials.accessKeyId}/x`;
  // The patterns do not match themselves, because grep is a process too.
  const theirs = (where: string, line: string) =>
    `cat /proc/[0-9]*/${where} /proc/[0-9]*/task/*/${where} | tr '\\0' '\\n' | grep -ax '${line}'`;
  return {
    "the sandbox API, with its token": get(
      `${sandbox}/api/v2/sandboxes?project=local`,
      `authorization: Bearer ${at.sandboxToken}`,
    ),
    "its control routes": get(`${sandbox}/_control/stats`, `authorization: Bearer ${at.apiKey}`),
    "DynamoDB, with the host's key": get(dynamodb, signed, "x-amz-target: DynamoDB_20120810.ListTables"),
    "SQS, with the host's key": get(sqs, signed, "x-amz-target: AmazonSQS.ListQueues"),
    "a service on the host's loopback": get(`http://127.0.0.1:${loopbackPort}/`),
    "the same by another name": get(`http://localhost:${loopbackPort}/`),
    "an abstract socket of the host": `node -e 'require("net").connect("\\0${abstractSocket}").pipe(process.stdout)'`,
    "a server in another sandbox": get(`http://127.0.0.1:${victim.port}/`),
    "ports of the host in /proc/net": `grep -i ':${hexPort(sandbox)} ' /proc/net/tcp`,
    "files of another sandbox": `find '${at.dataDir}' /vercel /home /tmp -name '${victim.file}' 2>/dev/null`,
    "files of the stack": `ls '${at.dataDir}'`,
    "files of this machine": `cat ${import.meta.filename}`,
    "passwords of this machine": "cat /etc/shadow",
    "the environment of another's processes": theirs("environ", `VICTIM_SECRET=${victim.secret}`),
    "the processes of others": theirs("cmdline", `[${victim.argument[0]}]${victim.argument.slice(1)}`),
    "the environment of the stack's processes": theirs("environ", "AWS_ACCESS_KEY_ID=.*"),
    "the directory of a function's process": `ls /proc/${worker}/cwd/`,
    "the host's processes": theirs("cmdline", ".*[v]itest.*"),
  };
}

function hexPort(url: string): string {
  return Number(new URL(url).port).toString(16).padStart(4, "0");
}

/** A user whose task runs while others attack it. */
async function startVictim(at: Concierge): Promise<Victim & AsyncDisposable> {
  const { key } = (await at.client.json("POST", "/v1/keys", { userId: "victim" })) as { key: string };
  const client: Client = createClient({ ...at, apiKey: key });
  const victim = {
    file: `file-${randomUUID()}`,
    secret: randomUUID(),
    argument: `${600 + Math.random()}`,
    port: 20_000 + Math.floor(Math.random() * 10_000),
  };
  const server = `require("http").createServer((q, r) => r.end("theirs")).listen(${victim.port}, () => console.log("up"))`;
  const script = `touch ${victim.file}; sleep ${victim.argument} & node -e '${server}' & wait`;
  const limits = { maxDurationMs: 120_000, inactivityMs: 120_000 };
  const { id } = await client.start(script, { env: { VICTIM_SECRET: victim.secret }, limits });
  await expect.poll(async () => (await client.output(id)).toString(), { timeout: 30_000 }).toContain("up");
  return { ...victim, [Symbol.asyncDispose]: async () => void (await client.stop(id)) };
}

/** The attacks that succeeded. */
async function attack(at: Concierge, attacks: Record<string, string>): Promise<string[]> {
  const lines = Object.entries(attacks).map(
    ([name, command]) =>
      `if [ -n "$(${command} 2>/dev/null | head -c 100 | tr -d '\\0')" ]; then echo "REACHED: ${name}"; fi`,
  );
  const { id } = await at.client.start([...lines, "echo finished"].join("\n"), { sessionKey: "attacker" });
  const { status } = await at.client.ended(id, 60_000);
  expect(status).toBe("succeeded");
  const output = (await at.client.output(id)).toString();
  expect(output).toContain("finished");
  return output.split("\n").flatMap((line) => (line.startsWith("REACHED: ") ? [line.slice(9)] : []));
}

describe.skipIf(!canIsolate() && process.env.CI !== "true")("a task of one user", () => {
  let concierge: Concierge;
  beforeAll(async () => {
    concierge = await startConcierge({}, { mayBeRefused: true });
  });
  afterAll(() => concierge[Symbol.asyncDispose]());

  it("reaches nothing of others, of the stack or of this machine", async () => {
    await using victim = await startVictim(concierge);
    expect(await attack(concierge, attacksOn(concierge, victim))).toEqual([]);
  });

  it("reaches none of it by talking to its gateway", async () => {
    const { sandbox = "", dynamodb, sqs } = concierge.endpoints;
    const services = [sandbox, dynamodb, sqs, `http://127.0.0.1:${loopbackPort}`].map((url) => new URL(url));
    const hosts = [
      "127.0.0.1",
      "127.0.0.2",
      "localhost",
      "::1",
      "::ffff:127.0.0.2",
      "64:ff9b::7f00:2",
      "0.0.0.0",
    ];
    const targets = services.flatMap(({ port }) => hosts.map((host) => ({ host, port: Number(port) })));
    const code = `
      const ask = (target) => new Promise((done) => {
        const socket = require("net").connect("/run/sandbox-network/gateway");
        socket.write(JSON.stringify({ kind: "connect", ...target }) + "\\n");
        socket.once("data", (data) => { done(data[0] === 1 ? [target] : []); socket.destroy(); });
        socket.once("error", (error) => done([error.code]));
      });
      Promise.all(${JSON.stringify(targets)}.map(ask)).then((all) => console.log("accepted", JSON.stringify(all.flat())));`;
    const { id } = await concierge.client.start(`node -e '${code}'`);
    await concierge.client.ended(id);
    expect((await concierge.client.output(id)).toString()).toContain("accepted []");
  });

  it("reaches Concierge itself, and a service on loopback that its policy names", async () => {
    const { client, url } = concierge;
    const callback = `curl -sS -m 5 ${url}/healthz >/dev/null && echo callback`;
    // The task fails, because this is no repository. The request arrives.
    const repo = { url: `http://127.0.0.1:${loopbackPort}/repo.git`, push: false };
    const requested = new Promise<string | undefined>((resolve) =>
      onLoopback.once("request", (request) => resolve(request.url)),
    );
    const { id } = await client.start(callback);
    await client.ended(id);
    expect((await client.output(id)).toString()).toContain("callback");
    await client.start("true", { repo, sessionKey: "with-a-repository" });
    expect(await requested).toContain("/repo.git/info/refs");
  });

  it("finds a sandbox API that refuses every token but the stack's, and engines that refuse every key", async () => {
    const { sandbox, dynamodb, sqs } = concierge.endpoints;
    for (const token of ["local", "x", concierge.apiKey]) {
      const answer = await fetch(`${sandbox}/api/v2/sandboxes?project=local`, {
        headers: { authorization: `Bearer ${token}` },
      });
      expect(answer.status).toBe(403);
    }
    for (const [url, target] of [
      [dynamodb, "DynamoDB_20120810.ListTables"],
      [sqs, "AmazonSQS.ListQueues"],
    ] as const) {
      const answer = await fetch(url, {
        method: "POST",
        headers: { authorization: "AWS4-HMAC-SHA256 Credential=local/x", "x-amz-target": target },
        body: "{}",
      });
      expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining("Unrecognized")]);
    }
    await using other = await startConcierge();
    expect(other.sandboxToken).not.toBe(concierge.sandboxToken);
    expect(other.credentials.accessKeyId).not.toBe(concierge.credentials.accessKeyId);
  });
});

describe("without private hosts", () => {
  it("a task reaches Concierge's callback address and no other service on loopback", async () => {
    await using strict = await startConcierge({ env: { CONCIERGE_ALLOW_PRIVATE_HOSTS: "false" } });
    // That the task succeeds shows that the runner's callbacks arrive.
    const reached = await attack(strict, {
      loopback: `curl -sS -m 5 http://127.0.0.1:${loopbackPort}/`,
      callback: `curl -sS -m 5 ${strict.url}/healthz`,
    });
    expect(reached).toEqual(["callback"]);
  });
});

describe("without isolation", () => {
  it("every one of the attacks succeeds, so the tests above can fail", async () => {
    await using open = await startConcierge(
      { isolation: "none", allowUnisolated: true },
      { mayBeRefused: true },
    );
    await using victim = await startVictim(open);
    const attacks = attacksOn(open, victim);
    expect(await attack(open, attacks)).toEqual(Object.keys(attacks));
  });

  it("no second user gets a key, and a start with one is refused", async () => {
    const directory = await startConcierge();
    await directory.client.json("POST", "/v1/keys", { userId: "second" });
    const { dataDir } = directory;
    await directory.close();
    const start = () => startConcierge({ isolation: "none", dataDir });
    await expect(start()).rejects.toThrow(/NOT ISOLATED.*second.*--allow-unisolated/);
    await directory[Symbol.asyncDispose]();

    await using single = await startConcierge({ isolation: "none" });
    const refused = await single.client.request("POST", "/v1/keys", { userId: "second" });
    expect([refused.status, await refused.json()]).toEqual([
      403,
      expect.objectContaining({ code: "forbidden", detail: expect.stringContaining("NOT ISOLATED") }),
    ]);
    expect((await single.client.request("POST", "/v1/keys", { userId: single.userId })).status).toBe(201);
  });
});
