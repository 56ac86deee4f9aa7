import { BatchWriteItemCommand, type DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { marshall } from "@aws-sdk/util-dynamodb";
import { AppError, type EndingDeps, type LaunchDeps } from "@concierge/core";
import { reap } from "@concierge/core/reaper/reap";
import { start } from "@concierge/core/task/start";
import { physicalName } from "@concierge/dev";
import type { Benchmark, Figure } from "./harness.ts";
import { composeDeps, type Requests, requestsOf, startEngine } from "./verbs.ts";

type Item = Record<string, unknown>;

const hour = 60 * 60_000;
const dueSessions = 50;

/** What depends on what is due, or on nothing, must not grow with what exists. */
export const walls: Benchmark = {
  name: "walls",
  about: "requests of a reaper's pass and of a start at a full pool, by how much there is",
  async run() {
    const passes = await Promise.all([100, 1_000, 10_000].map((sessions) => passWith({ sessions })));
    const [few = 0, ...more] = passes;
    const busy = await passWith({ sessions: 100, runningTurns: 1_000 });
    const flat = { of: "ratio", atMost: 1.05, firm: true } as const;
    const starts = await Promise.all([20, 200, 2_000].map(startAtFullPool));
    const [small = 0, ...larger] = starts;
    const figures: Figure[] = [
      { what: `a pass, ${dueSessions} due of 100 sessions`, unit: "requests" as const, value: few },
      ...more.map((value, i) => ({
        what: `a pass, ${dueSessions} due of ${[1_000, 10_000][i]} sessions`,
        unit: "requests" as const,
        value,
        baseline: { what: "the same of 100 sessions", value: few },
        target: flat,
      })),
      {
        what: `a pass, ${dueSessions} due, and 1,000 healthy turns run`,
        unit: "requests" as const,
        value: busy,
        baseline: { what: "the same of 100 sessions", value: few },
        target: flat,
      },
      { what: "a start refused at a full pool of 20", unit: "requests" as const, value: small },
      ...larger.map((value, i) => ({
        what: `a start refused at a full pool of ${[200, 2_000][i]}`,
        unit: "requests" as const,
        value,
        baseline: { what: "the same at 20", value: small },
        target: flat,
      })),
    ];
    return figures;
  },
};

/** One reaper pass: requests to the table and to the provider. */
async function passWith({ sessions, runningTurns = 0 }: { sessions: number; runningTurns?: number }) {
  const total = requestsOf();
  await using engine = await startEngine(total);
  const deps = composeDeps(engine.client, total, { POOL_MAX_SANDBOXES: "2000", POOL_MAX_PER_USER: "2000" });
  const now = deps.clock.now();
  const items: Item[] = [];
  for (let i = 0; i < sessions; i++) items.push(...sessionItems(i, now, { isDue: i < dueSessions }));
  for (let i = 0; i < runningTurns; i++) items.push(...runningItems(i, now));
  await fill(engine.client, items);
  await makeSandboxes(deps, sessions + runningTurns > 1_100 ? 0 : dueSessions + runningTurns);
  const before = requests(total);
  const report = await reap(deps, { dryRun: false, maxMs: 60_000 });
  const kept = report.sessions.kept ?? 0;
  if (kept !== dueSessions || report.failures.length > 0)
    throw new Error(`the pass looked at ${kept} sessions: ${report.failures.join("; ")}`);
  return requests(total) - before;
}

async function startAtFullPool(size: number): Promise<number> {
  const total = requestsOf();
  await using engine = await startEngine(total);
  const deps = composeDeps(engine.client, total, {
    POOL_MAX_SANDBOXES: String(size),
    POOL_MAX_PER_USER: String(size),
  });
  const now = deps.clock.now();
  await fill(engine.client, Array.from({ length: size }, (_, i) => runningItems(i, now)).flat());
  const before = requests(total);
  const refused = await start(deps, "newcomer", { prompt: "true" }).catch((error: unknown) => error);
  if (!(refused instanceof AppError && refused.code === "no_room"))
    throw new Error("the start was not refused");
  return requests(total) - before;
}

function requests({ reads, writes, calls }: Requests): number {
  return reads + writes + calls;
}

/** The provider lists its sandboxes, as many as the pool has. */
async function makeSandboxes({ provider, config }: EndingDeps & LaunchDeps, count: number): Promise<void> {
  const tags = { app: "concierge", stage: config.stage };
  for (let i = 0; i < count; i++)
    await provider.create({
      name: `box-${i}`,
      tags: { ...tags, user: `user-${i}`, session: "default" },
      timeoutMs: 5 * hour,
    });
}

/** A session with a turn that is due for a look: it is kept. */
function sessionItems(i: number, now: number, { isDue }: { isDue: boolean }): Item[] {
  const [userId, key] = [`user-${i}`, "default"];
  const dueAt = isDue ? now - 1000 : now + hour;
  const session = {
    pk: `SESSION#${userId}#${key}`,
    sk: "SESSION",
    schema: 3,
    userId,
    key,
    epoch: 1,
    owner: `SESSIONS#${userId}`,
    ownedAt: `${now}#${key}`,
    dueShard: `SESSION#${i % 4}`,
    dueAt,
    isIdle: false,
    lease: { taskId: `task_idle_${i}`, turn: 1, at: now },
    sandbox: {
      state: "ready",
      name: `box-${i}`,
      sessionId: "s",
      createdAt: now,
      origin: "cold",
      startedAt: now,
      expiresAt: now + hour,
      extendedAt: now,
    },
    createdAt: now,
    lastUsedAt: now,
    expiresAt: now + 24 * hour,
  };
  return isDue ? [session, taskItem(`task_idle_${i}`, userId, now), slotItem(i, now)] : [session];
}

/** A healthy running turn: nothing of it is due. */
function runningItems(i: number, now: number): Item[] {
  const userId = `busy-${i}`;
  const [session = {}] = sessionItems(i, now, { isDue: false });
  const own = { pk: `SESSION#${userId}#default`, userId, owner: `SESSIONS#${userId}` };
  const lease = { taskId: `task_busy_${i}`, turn: 1, at: now };
  return [
    { ...session, ...own, lease },
    taskItem(`task_busy_${i}`, userId, now),
    { ...slotItem(i, now), sk: `NAME#busy-${i}`, name: `busy-${i}`, userId },
  ];
}

function slotItem(i: number, now: number): Item {
  const name = `box-${i}`;
  return {
    pk: "SLOTS",
    sk: `NAME#${name}`,
    schema: 3,
    name,
    at: now,
    epoch: 1,
    userId: `user-${i}`,
    sessionKey: "default",
  };
}

function taskItem(id: string, userId: string, now: number): Item {
  return {
    pk: `TASK#${id}`,
    sk: "TASK",
    schema: 3,
    id,
    userId,
    sessionKey: "default",
    agent: "shell",
    prompt: "true",
    keepAlive: true,
    limits: { maxDurationMs: hour, inactivityMs: 60_000 },
    metadata: {},
    turn: 1,
    state: { status: "running", commandId: "c" },
    status: "running",
    owner: `TASKS#${userId}`,
    ownedAt: id,
    dueShard: "TASK#0",
    dueAt: now + 60_000,
    createdAt: now,
    deadlineAt: now + hour,
    lastActivityAt: now,
    outputSeq: 0,
    past: [],
    phases: [],
    phaseCount: 0,
    notices: [],
    expiresAt: now + 24 * hour,
  };
}

async function fill(client: DynamoDBClient, items: readonly Item[]): Promise<void> {
  const table = physicalName("Table");
  for (let at = 0; at < items.length; at += 25) {
    const puts = items.slice(at, at + 25).map((item) => ({ PutRequest: { Item: marshall(item) } }));
    await client.send(new BatchWriteItemCommand({ RequestItems: { [table]: puts } }));
  }
}
