import {
  type Clock,
  createId,
  type EventRecord,
  type Lease,
  type Store,
  type Task,
  type WarmSandbox,
} from "@concierge/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

export interface OpenStore {
  store: Store;
  /** Moves the clock the store reads. */
  advance(ms: number): void;
  now(): number;
  close(): Promise<void>;
}

const contenders = 50;

/** What any store must do. Run on each engine: a table in memory, dynalite, AWS's DynamoDB Local. */
export function storeContract(name: string, open: () => Promise<OpenStore>): void {
  describe(`the store on ${name}`, () => {
    let opened: OpenStore;
    let store: Store;
    beforeAll(async () => {
      opened = await open();
      store = opened.store;
    });
    afterAll(async () => await opened?.close());

    const user = () => createId("key", opened.now()).replace("key_", "user-");
    const aTask = (over: Partial<Task> = {}): Task => taskFrom(opened.now(), over);
    const saved = async (over: Partial<Task> = {}): Promise<Task> => {
      const task = aTask(over);
      await store.createTask(task);
      return task;
    };
    const provisioning = (id: string, until: number): Task["state"] => ({
      status: "provisioning",
      claim: { id, until },
    });

    describe("a task", () => {
      it("is read back as it was written, secrets, metadata and all", async () => {
        const task = await saved({ sealed: "c2VhbGVk", metadata: { k: "v" }, prompt: "echo ✓" });
        expect(await store.getTask(task.id)).toEqual(task);
      });

      it("that does not exist is undefined, and can not be changed", async () => {
        expect(await store.getTask("task_none")).toBeUndefined();
        const outcome = await store.changeTask(
          "task_none",
          { turn: 1, status: ["queued"] },
          { set: { outputSeq: 1 } },
        );
        expect(outcome).toEqual({ won: false, item: undefined });
        expect(await store.getTask("task_none")).toBeUndefined();
      });

      it("is created once, however many try", async () => {
        const task = aTask();
        const outcomes = await stampede((i) => store.createTask({ ...task, prompt: `contender ${i}` }));
        expect(winners(outcomes)).toHaveLength(1);
        const [winner] = winners(outcomes);
        for (const outcome of outcomes) expect(outcome.item?.prompt).toBe(winner?.item?.prompt);
      });

      it("is claimed once, and its phase is appended in the same write", async () => {
        const task = await saved();
        const outcomes = await stampede((i) =>
          store.changeTask(
            task.id,
            { turn: 1, status: ["queued"] },
            {
              set: { state: provisioning(`claim ${i}`, opened.now() + 1000) },
              phase: { turn: 1, status: "provisioning", at: opened.now(), by: "worker", note: `claim ${i}` },
            },
          ),
        );
        expect(winners(outcomes)).toHaveLength(1);
        const after = await store.getTask(task.id);
        expect(after).toEqual(winners(outcomes)[0]?.item);
        expect(after?.phases).toHaveLength(2);
        expect(after?.phaseCount).toBe(2);
        expect(after?.state).toMatchObject({ status: "provisioning", claim: { id: after?.phases[1]?.note } });
      });

      it("whose claim ran out is taken over once, and not a moment before", async () => {
        const until = opened.now() + 1000;
        const task = await saved({ state: provisioning("first", until) });
        const takeOver = (now: number) => (i: number) =>
          store.changeTask(
            task.id,
            { turn: 1, status: ["provisioning"], claimUntilBefore: now },
            { set: { state: provisioning(`second ${i}`, until + 5000) } },
          );
        expect(winners(await stampede(takeOver(until)))).toHaveLength(0);
        expect(winners(await stampede(takeOver(until + 1)))).toHaveLength(1);
      });

      it("is renewed only by the one that has the claim", async () => {
        const task = await saved({ state: provisioning("mine", opened.now()) });
        const renew = (claimId: string) =>
          store.changeTask(
            task.id,
            { turn: 1, status: ["provisioning"], claimId },
            { set: { state: provisioning(claimId, opened.now() + 9000) } },
          );
        expect(await renew("other")).toMatchObject({
          won: false,
          item: { state: { claim: { id: "mine" } } },
        });
        expect(await renew("mine")).toMatchObject({
          won: true,
          item: { state: { claim: { until: opened.now() + 9000 } } },
        });
      });

      it("takes each batch of output once, and only in order", async () => {
        const task = await saved({ state: { status: "running", commandId: "cmd" } });
        const commit = (seq: number) =>
          store.changeTask(
            task.id,
            { turn: 1, status: ["running"], outputSeq: seq - 1 },
            { set: { outputSeq: seq, lastActivityAt: opened.now() + seq } },
          );
        expect(winners(await stampede(() => commit(1)))).toHaveLength(1);
        expect(await commit(3)).toMatchObject({ won: false, item: { outputSeq: 1 } });
        expect(await commit(2)).toMatchObject({ won: true, item: { outputSeq: 2 } });
      });

      it("is given its push once, and never from its deadline on", async () => {
        const task = await saved({ state: { status: "running", commandId: "c" }, deadlineAt: 1000 });
        const push = { commit: "c", branch: "b", exitCode: 0, text: "" };
        const grant = (now: number) => () =>
          store.changeTask(
            task.id,
            { turn: 1, status: ["running"], deadlineAfter: now },
            { set: { state: { status: "finalizing", push, finalizeBy: 9 } } },
          );
        expect(winners(await stampede(grant(1000)))).toHaveLength(0);
        expect(winners(await stampede(grant(999)))).toHaveLength(1);
      });

      it("gives its credential to one who asks, again and again, and to no other", async () => {
        const task = await saved({ state: { status: "running", commandId: "c" } });
        const ask = (nonce: string) =>
          store.changeTask(
            task.id,
            { turn: 1, status: ["running"], cloneNonce: nonce },
            { set: { cloneNonce: nonce } },
          );
        const outcomes = await stampede((i) => ask(`nonce ${i}`));
        expect(winners(outcomes)).toHaveLength(1);
        const nonce = winners(outcomes)[0]?.item?.cloneNonce ?? "";
        expect((await ask(nonce)).won).toBe(true);
        expect((await ask("another")).won).toBe(false);
      });

      it("goes on to its next turn once", async () => {
        const task = await saved({
          state: {
            status: "stopped",
            endedAt: 1,
            result: null,
            error: { code: "stopped_by_user", detail: "" },
          },
        });
        const outcomes = await stampede((i) =>
          store.changeTask(
            task.id,
            { turn: 1, status: ["succeeded", "failed", "stopped", "timed_out"] },
            {
              set: {
                turn: 2,
                state: { status: "queued" },
                prompt: `next ${i}`,
                phases: [],
                phaseCount: 2,
                past: [{ turn: 1, outputSeq: 0 }],
              },
              remove: ["sandbox", "startedAt", "cloneNonce", "sealed"],
            },
          ),
        );
        expect(winners(outcomes)).toHaveLength(1);
        expect(await store.getTask(task.id)).toMatchObject({
          turn: 2,
          phases: [],
          past: [{ turn: 1, outputSeq: 0 }],
        });
      });

      it("changes for no other turn than its own", async () => {
        const task = await saved({ turn: 2 });
        for (const turn of [1, 3]) {
          const outcome = await store.changeTask(
            task.id,
            { turn, status: ["queued"] },
            { set: { outputSeq: 9 } },
          );
          expect(outcome).toEqual({ won: false, item: task });
        }
      });

      it("ends once, whoever says so, and loses what its status does not have", async () => {
        const task = await saved({
          state: { status: "running", commandId: "cmd" },
          sealed: "eA==",
          dueAt: 5,
        });
        const outcomes = await stampede((i) =>
          store.changeTask(
            task.id,
            { turn: 1, status: ["running"] },
            {
              set: { state: { status: "succeeded", endedAt: opened.now(), result: null } },
              remove: ["sealed", "dueAt"],
              phase: { turn: 1, status: "succeeded", at: opened.now(), by: "runner", note: String(i) },
              notice: { code: "n", detail: String(i), turn: 1, at: opened.now() },
            },
          ),
        );
        expect(winners(outcomes)).toHaveLength(1);
        const after = await store.getTask(task.id);
        expect(after?.state).toEqual({ status: "succeeded", endedAt: opened.now(), result: null });
        expect(after).not.toHaveProperty("sealed");
        expect(after?.notices).toHaveLength(1);
        expect(after?.phases).toHaveLength(2);
      });

      it("is gone from when it expires, though the table still has it", async () => {
        const task = await saved({ userId: user(), expiresAt: opened.now() + 1000 });
        opened.advance(1000);
        expect(await store.getTask(task.id)).toBeUndefined();
        const outcome = await store.changeTask(
          task.id,
          { turn: 1, status: ["queued"] },
          { set: { outputSeq: 1 } },
        );
        expect(outcome).toEqual({ won: false, item: undefined });
        expect((await store.listTasks(task.userId, { limit: 10 })).items).toEqual([]);
      });
    });

    describe("a list of tasks", () => {
      it("is newest first, in pages that neither lose nor repeat, and one user's alone", async () => {
        const userId = user();
        const mine: Task[] = [];
        for (let i = 0; i < 7; i++) {
          opened.advance(1);
          mine.push(await saved({ userId }));
          await saved({ userId: user() });
        }
        const seen: string[] = [];
        let after: string | undefined;
        do {
          const page = await store.listTasks(userId, { limit: 3, ...(after && { after }) });
          expect(page.items.length).toBeLessThanOrEqual(3);
          seen.push(...page.items.map(({ id }) => id));
          after = page.next;
        } while (after);
        expect(seen).toEqual(mine.map(({ id }) => id).reverse());
      });

      it("that ends exactly with a page has no cursor", async () => {
        const userId = user();
        await saved({ userId });
        await saved({ userId });
        expect((await store.listTasks(userId, { limit: 2 })).next).toBeUndefined();
      });

      it("is filtered by status and by session, over however many pages", async () => {
        const userId = user();
        for (let i = 0; i < 12; i++) {
          opened.advance(1);
          await saved({
            userId,
            sessionKey: i % 3 === 0 ? "third" : "rest",
            ...(i % 4 === 0 && { state: { status: "running", commandId: "c" } as const }),
          });
        }
        const running = await store.listTasks(userId, { limit: 2, status: "running" });
        expect(running.items).toHaveLength(2);
        expect(running.next).toBeDefined();
        const both = await store.listTasks(userId, { limit: 10, status: "running", sessionKey: "third" });
        expect(both.items).toHaveLength(1);
        expect(both.next).toBeUndefined();
      });
    });

    describe("what is due", () => {
      it("is listed earliest first, without what is not due or no longer waits", async () => {
        const base = 1000;
        const first = await saved({ dueAt: base + 1 });
        const second = await saved({ dueAt: base + 2 });
        const later = await saved({ dueAt: base + 3 });
        const done = await saved({ dueAt: base });
        await store.changeTask(done.id, { turn: 1, status: ["queued"] }, { remove: ["dueAt"] });
        const listed = await store.listDueTasks(base + 2, 100);
        expect(listed.filter((id) => [first.id, second.id, later.id, done.id].includes(id))).toEqual([
          first.id,
          second.id,
        ]);
        expect(await store.listDueTasks(base + 2, 1)).toHaveLength(1);
      });
    });

    describe("records", () => {
      it("come back in order, bytes and all: a turn's progress, then its output", async () => {
        const { id, expiresAt } = aTask();
        const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
        const output = (turn: number, seq: number): EventRecord => ({
          kind: "output",
          turn,
          seq,
          chunks: [{ stream: "stdout", at: 7, data: bytes }],
        });
        const progress = {
          kind: "progress",
          turn: 1,
          seq: 1_700_000_000_000,
          at: 3,
          step: "creating",
          detail: "d",
        } as const;
        for (const seq of [10, 2, 1]) await store.putRecord(id, output(1, seq), expiresAt);
        await store.putRecord(id, output(2, 1), expiresAt);
        await store.putRecord(id, progress, expiresAt);

        const { records } = await store.readRecords(id, { turn: 0, kind: "progress", seq: 0 }, 1);
        expect(records.map(({ turn, kind, seq }) => [turn, kind, seq])).toEqual([
          [1, "progress", progress.seq],
          [1, "output", 1],
          [1, "output", 2],
          [1, "output", 10],
        ]);
        const [, first] = records;
        if (first?.kind !== "output") throw new Error("not an output record");
        expect(Buffer.from(first.chunks[0]?.data ?? []).equals(Buffer.from(bytes))).toBe(true);

        const rest = await store.readRecords(id, { turn: 1, kind: "output", seq: 10 }, 2);
        expect(rest.records.map(({ turn, seq }) => [turn, seq])).toEqual([
          [1, 10],
          [2, 1],
        ]);
      });

      it("written again, by however many, stay as they were first", async () => {
        const { id, expiresAt } = aTask();
        const from = { turn: 1, kind: "output", seq: 1 } as const;
        const put = (text: string) =>
          store.putRecord(
            id,
            { ...from, chunks: [{ stream: "stderr", at: 1, data: Buffer.from(text) }] },
            expiresAt,
          );
        await put("first");
        await stampede((i) => put(`again ${i}`));
        const [record] = (await store.readRecords(id, from, 1)).records;
        if (record?.kind !== "output") throw new Error("not an output record");
        expect(Buffer.from(record.chunks[0]?.data ?? []).toString()).toBe("first");
      });
    });

    describe("a session", () => {
      const lease = (taskId: string, at = 1): Lease => ({ taskId, turn: 1, at });
      const take = (userId: string, taskId: string, over: Lease | null) =>
        store.changeSession(
          userId,
          "key",
          { lease: over },
          {
            set: {
              lease: lease(taskId, opened.now()),
              lastUsedAt: opened.now(),
              expiresAt: opened.now() + 60_000,
            },
          },
        );

      it("is created by whoever leases it first, once", async () => {
        const userId = user();
        expect(await store.getSession(userId, "key")).toBeUndefined();
        const outcomes = await stampede((i) => take(userId, `task ${i}`, null));
        expect(winners(outcomes)).toHaveLength(1);
        const session = await store.getSession(userId, "key");
        expect(session).toEqual(winners(outcomes)[0]?.item);
        expect(session).toMatchObject({ userId, key: "key", epoch: 0, createdAt: opened.now() });
      });

      it("with a dead lease goes to one of those who saw that lease, and to none who saw another", async () => {
        const userId = user();
        const { item } = await take(userId, "dead", null);
        const seen = item?.lease;
        if (!seen) throw new Error("no lease");
        expect((await take(userId, "late", { ...seen, at: seen.at - 1 })).won).toBe(false);
        expect((await take(userId, "late", { ...seen, turn: seen.turn + 1 })).won).toBe(false);
        expect(winners(await stampede((i) => take(userId, `heir ${i}`, seen)))).toHaveLength(1);
      });

      it("moves from epoch to epoch once, and a stale actor moves nothing", async () => {
        const userId = user();
        const { item } = await take(userId, "task", null);
        const held = item?.lease;
        if (!held) throw new Error("no lease");
        const assign = (epoch: number) => (i: number) =>
          store.changeSession(
            userId,
            "key",
            { lease: held, epoch },
            { set: { epoch: epoch + 1, sandbox: { state: "creating", name: `box ${i}`, createdAt: 1 } } },
          );
        expect(winners(await stampede(assign(0)))).toHaveLength(1);
        expect(winners(await stampede(assign(0)))).toHaveLength(0);
        expect((await store.getSession(userId, "key"))?.epoch).toBe(1);

        const forget = () =>
          store.changeSession(userId, "key", { epoch: 1 }, { set: { epoch: 2 }, remove: ["sandbox"] });
        expect(winners(await stampede(forget))).toHaveLength(1);
        expect(await store.getSession(userId, "key")).not.toHaveProperty("sandbox");
      });

      it("that does not exist has no epoch to write at", async () => {
        const outcome = await store.changeSession(user(), "key", { epoch: 0 }, { set: { epoch: 1 } });
        expect(outcome).toEqual({ won: false, item: undefined });
      });

      it("is listed among what is due, the least recently used first, until it is not", async () => {
        const [older, newer] = [user(), user()];
        for (const [userId, dueAt] of [
          [newer, 20],
          [older, 10],
        ] as const) {
          await store.changeSession(
            userId,
            "key",
            { lease: null },
            {
              set: { lease: lease("t"), lastUsedAt: 1, dueAt, expiresAt: opened.now() + 60_000 },
            },
          );
        }
        const mine = async (now: number) =>
          (await store.listDueSessions(now, 100))
            .map(({ userId }) => userId)
            .filter((id) => id === older || id === newer);
        expect(await mine(20)).toEqual([older, newer]);
        expect(await mine(19)).toEqual([older]);
        await store.changeSession(older, "key", { epoch: 0 }, { remove: ["dueAt"] });
        expect(await mine(20)).toEqual([newer]);
      });

      it("that expired is free, and keeps its epoch", async () => {
        const userId = user();
        const first = await take(userId, "old", null);
        await store.changeSession(
          userId,
          "key",
          { lease: first.item?.lease ?? null, epoch: 0 },
          { set: { epoch: 5 } },
        );
        opened.advance(60_000);
        expect(await store.getSession(userId, "key")).toBeUndefined();
        expect(await take(userId, "new", null)).toMatchObject({
          won: true,
          item: { epoch: 5, lease: { taskId: "new" } },
        });
      });
    });

    describe("a key", () => {
      const aKey = () => ({
        id: createId("key", opened.now()),
        userId: user(),
        admin: false,
        hash: "aGFzaA==",
        createdAt: 1,
      });

      it("is created once, read, listed newest first, and deleted once", async () => {
        const key = aKey();
        expect(winners(await stampede(() => store.createKey(key)))).toHaveLength(1);
        expect(await store.getKey(key.id)).toEqual(key);
        opened.advance(1);
        const newer = aKey();
        await store.createKey(newer);
        const { items, next } = await store.listKeys({ limit: 1 });
        expect(items).toEqual([newer]);
        expect((await store.listKeys({ limit: 1, after: next ?? "" })).items).toEqual([key]);
        const deletions = await stampede(() => store.deleteKey(key.id));
        expect(deletions.filter(Boolean)).toHaveLength(1);
        expect(await store.getKey(key.id)).toBeUndefined();
      });
    });

    describe("a warm sandbox", () => {
      const aWarm = (): WarmSandbox => ({
        state: "creating",
        name: createId("warm", opened.now()),
        createdAt: opened.now(),
        expiresAt: opened.now() + 60_000,
      });
      const ready = (warm: WarmSandbox): WarmSandbox => ({ ...warm, state: "ready", sessionId: "s" });

      it("is recorded once, becomes ready once, and is claimed by one session alone", async () => {
        const warm = aWarm();
        expect(trues(await stampede(() => store.createWarm(warm)))).toBe(1);
        expect(trues(await stampede(() => store.changeWarm(warm.name, "creating", ready(warm))))).toBe(1);
        const { name, createdAt, expiresAt } = warm;
        const claims = await stampede((i) =>
          store.changeWarm(name, "ready", {
            state: "claimed",
            name,
            createdAt,
            expiresAt,
            userId: `user ${i}`,
            sessionKey: "k",
          }),
        );
        expect(trues(claims)).toBe(1);
        const winner = claims.indexOf(true);
        expect(await store.getWarm(name)).toMatchObject({ state: "claimed", userId: `user ${winner}` });
        expect((await store.listWarm()).find((one) => one.name === name)).toMatchObject({
          userId: `user ${winner}`,
        });
      });

      it("is deleted once, and only from the state it was seen in", async () => {
        const warm = aWarm();
        await store.createWarm(warm);
        expect(await store.deleteWarm(warm.name, "ready")).toBe(false);
        expect(trues(await stampede(() => store.deleteWarm(warm.name, "creating")))).toBe(1);
        expect(await store.getWarm(warm.name)).toBeUndefined();
      });
    });

    describe("the flags", () => {
      it("are none, then those that were put", async () => {
        expect(await store.getFlags()).toEqual({});
        await store.putFlags({ ENABLE_HEALTH_PROBE: "10%" });
        expect(await store.getFlags()).toEqual({ ENABLE_HEALTH_PROBE: "10%" });
      });
    });

    describe("an idempotency key", () => {
      it("belongs to the first, until it expires", async () => {
        const scope = user();
        const claim = (i: number) =>
          store.claimIdempotencyKey(scope, {
            requestHash: `hash ${i}`,
            taskId: `task ${i}`,
            turn: 1,
            expiresAt: opened.now() + 1000,
          });
        const outcomes = await stampede(claim);
        expect(winners(outcomes)).toHaveLength(1);
        const [winner] = winners(outcomes);
        for (const { item } of outcomes) expect(item).toEqual(winner?.item);
        opened.advance(1000);
        expect(winners(await stampede(claim))).toHaveLength(1);
      });
    });
  });
}

/** A clock that stands still until it is moved. */
export function manualClock(): Clock & { advance(ms: number): void } {
  let now = 1_800_000_000_000;
  return {
    now: () => now,
    sleep: async () => {},
    advance: (ms) => {
      now += ms;
    },
  };
}

function stampede<T>(contend: (i: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: contenders }, (_, i) => contend(i)));
}

function trues(answers: boolean[]): number {
  return answers.filter(Boolean).length;
}

function winners<T extends { won: boolean }>(outcomes: T[]): T[] {
  return outcomes.filter(({ won }) => won);
}

function taskFrom(now: number, over: Partial<Task>): Task {
  return {
    id: createId("task", now),
    userId: "user",
    sessionKey: "default",
    agent: "shell",
    prompt: "echo hello",
    keepAlive: true,
    limits: { maxDurationMs: 1000, inactivityMs: 1000 },
    metadata: {},
    turn: 1,
    state: { status: "queued" },
    createdAt: now,
    deadlineAt: now + 1000,
    lastActivityAt: now,
    outputSeq: 0,
    past: [],
    phases: [{ turn: 1, status: "queued", at: now, by: "api" }],
    phaseCount: 1,
    notices: [],
    expiresAt: now + 1_000_000_000,
    ...over,
  };
}
