import { type Clock, createId, type Store, type Task } from "@concierge/core";

export interface OpenStore {
  store: Store;
  /** Moves the store's clock. */
  advance(ms: number): void;
  now(): number;
  close(): Promise<void>;
}

/** A store, its clock, and items to put into it. */
export interface Fixture extends Omit<OpenStore, "close"> {
  /** A new user id. */
  user(): string;
  /** A new number. */
  number(): number;
  aTask(overrides?: Partial<Task>): Task;
  saved(overrides?: Partial<Task>): Promise<Task>;
}

/** The store is opened after the tests are declared, so it is read on each use. */
export function createFixture(opened: () => OpenStore): Fixture {
  let numbers = 10;
  const aTask = (overrides: Partial<Task> = {}): Task => taskFrom(opened().now(), overrides);
  return {
    get store() {
      return opened().store;
    },
    advance: (ms) => opened().advance(ms),
    now: () => opened().now(),
    user: () => createId("key", opened().now()).replace("key_", "user-"),
    number: () => numbers++,
    aTask,
    async saved(overrides) {
      const task = aTask(overrides);
      await opened().store.createTask(task);
      return task;
    },
  };
}

/** A clock that moves only by `advance`. */
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

function taskFrom(now: number, overrides: Partial<Task>): Task {
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
    ...overrides,
  };
}
