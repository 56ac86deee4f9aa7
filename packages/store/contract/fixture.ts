import { type Clock, createId, type Store, type Task } from "@concierge/core";

export interface OpenStore {
  store: Store;
  /** Moves the clock the store reads. */
  advance(ms: number): void;
  now(): number;
  close(): Promise<void>;
}

/** What the parts of the contract are written on: a store, its clock, and something to put into it. */
export interface Fixture extends Omit<OpenStore, "close"> {
  /** A user nobody else has. */
  user(): string;
  /** A number nobody else has. */
  number(): number;
  aTask(over?: Partial<Task>): Task;
  saved(over?: Partial<Task>): Promise<Task>;
}

/** The store is opened after the tests are declared, so it is looked up when it is used. */
export function createFixture(opened: () => OpenStore): Fixture {
  let numbers = 10;
  const aTask = (over: Partial<Task> = {}): Task => taskFrom(opened().now(), over);
  return {
    get store() {
      return opened().store;
    },
    advance: (ms) => opened().advance(ms),
    now: () => opened().now(),
    user: () => createId("key", opened().now()).replace("key_", "user-"),
    number: () => numbers++,
    aTask,
    async saved(over) {
      const task = aTask(over);
      await opened().store.createTask(task);
      return task;
    },
  };
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

export const contenders = 50;

export function stampede<T>(contend: (i: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: contenders }, (_, i) => contend(i)));
}

export function trues(answers: boolean[]): number {
  return answers.filter(Boolean).length;
}

export function winners<T extends { won: boolean }>(outcomes: T[]): T[] {
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
