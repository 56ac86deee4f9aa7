import { describe, expect, it } from "vitest";
import type { Deps } from "../deps.ts";
import type { Task } from "../task/schema.ts";
import { aTask } from "../testing/task.ts";
import { beginning, formatCursor } from "./cursor.ts";
import { createFollower, type Followed } from "./follow.ts";
import type { EventRecord, TaskEvent } from "./schema.ts";

const start = formatCursor(beginning);
const running = { status: "running", commandId: "c" } as const;
const ended = { status: "succeeded", endedAt: 9, result: null } as const;

/** A task whose batches and clock the test controls. */
function aWorld() {
  let task: Task = aTask({
    state: running,
    phases: [{ turn: 1, status: "running", at: 1, by: "worker" }],
    phaseCount: 1,
  });
  const records: EventRecord[] = [];
  const reads = { task: 0, records: 0 };
  let sleepers: (() => void)[] = [];
  const store = {
    async getTask() {
      reads.task += 1;
      return task;
    },
    async readRecords(_id: string, from: { turn: number; seq: number }) {
      reads.records += 1;
      return { records: records.filter(({ turn, seq }) => turn > from.turn || seq >= from.seq), more: false };
    },
  };
  const clock = { now: () => 0, sleep: () => new Promise<void>((wake) => sleepers.push(wake)) };
  const follow = createFollower({ store, clock } as unknown as Deps);
  return {
    follow,
    reads,
    task: () => task,
    say(text: string) {
      const seq = records.length + 1;
      const chunks = [{ stream: "stdout" as const, at: seq, data: Buffer.from(text) }];
      records.push({ kind: "output", turn: 1, seq, chunks });
      task = { ...task, outputSeq: seq };
    },
    end() {
      const phase = { turn: 1, status: "succeeded", at: 9, by: "runner" } as const;
      task = { ...task, state: ended, phases: [...task.phases, phase], phaseCount: 2 };
    },
    /** Lets the poller poll once, and every waiting reader continue. */
    async tick() {
      const woken = sleepers;
      sleepers = [];
      for (const wake of woken) wake();
      for (let i = 0; i < 50; i++) await Promise.resolve();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

function read(pages: AsyncGenerator<Followed>) {
  const items: TaskEvent[] = [];
  const done = (async () => {
    for await (const page of pages) items.push(...page.items);
  })();
  return { items, done };
}

const short = (items: readonly TaskEvent[]) =>
  items.map((item) =>
    item.type === "output" ? item.text : item.type === "status" ? item.status : item.type,
  );

describe("a reader that follows a task", () => {
  it("gets existing events, then new ones, and ends with the task", async () => {
    const world = aWorld();
    world.say("a");
    const reader = read(world.follow(world.task(), start, new AbortController().signal));
    await world.tick();
    expect(short(reader.items)).toEqual(["running", "a"]);
    world.say("b");
    await world.tick();
    world.say("c");
    world.end();
    await world.tick();
    await reader.done;
    expect(short(reader.items)).toEqual(["running", "a", "b", "c", "succeeded"]);
  });

  it("gets everything at once if the task has ended", async () => {
    const world = aWorld();
    world.say("a");
    world.end();
    const reader = read(world.follow(world.task(), start, new AbortController().signal));
    await reader.done;
    expect(short(reader.items)).toEqual(["running", "a", "succeeded"]);
  });

  it("resumes after any event without loss or repetition", async () => {
    const world = aWorld();
    for (const text of ["a", "b", "c"]) world.say(text);
    world.end();
    const all = read(world.follow(world.task(), start, new AbortController().signal));
    await all.done;
    for (const [i, { cursor }] of all.items.entries()) {
      const rest = read(world.follow(world.task(), cursor, new AbortController().signal));
      await rest.done;
      expect(rest.items).toEqual(all.items.slice(i + 1));
    }
  });

  it("costs the table no more with ninety-nine others than alone", async () => {
    const alone = aWorld();
    const crowded = aWorld();
    for (const [world, readers] of [
      [alone, 1],
      [crowded, 100],
    ] as const) {
      const following = Array.from({ length: readers }, () =>
        read(world.follow(world.task(), start, new AbortController().signal)),
      );
      await world.tick();
      for (let i = 0; i < 20; i++) {
        if (i % 3 === 0) world.say(`${i} `);
        await world.tick();
      }
      world.end();
      await world.tick();
      await Promise.all(following.map(({ done }) => done));
      const [first] = following;
      for (const { items } of following) expect(items).toEqual(first?.items);
      expect(first?.items).toHaveLength(9);
    }
    expect(crowded.reads).toEqual(alone.reads);
  });

  it("delays nobody and misses nothing when it is slow", async () => {
    const world = aWorld();
    const signal = new AbortController().signal;
    const quick = read(world.follow(world.task(), start, signal));
    const slow = world.follow(world.task(), start, signal);
    const seen: TaskEvent[] = [...((await slow.next()).value?.items ?? [])];
    for (const text of ["a", "b", "c", "d"]) {
      world.say(text);
      await world.tick();
    }
    expect(short(quick.items)).toEqual(["running", "a", "b", "c", "d"]);
    world.end();
    await world.tick();
    await quick.done;
    for await (const page of slow) seen.push(...page.items);
    expect(seen).toEqual(quick.items);
  });

  it("is forgotten when it leaves, and so is the task after the last reader", async () => {
    const world = aWorld();
    const gone = new AbortController();
    const reader = read(world.follow(world.task(), start, gone.signal));
    await world.tick();
    gone.abort();
    await reader.done;
    await world.tick();
    const before = { ...world.reads };
    for (let i = 0; i < 5; i++) await world.tick();
    expect(world.reads).toEqual(before);
  });
});
