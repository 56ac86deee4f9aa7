import type { AgentEvent } from "@concierge/protocol";
import { createMemoryStore } from "@concierge/store";
import { beforeEach, describe, expect, it } from "vitest";
import type { Deps } from "../deps.ts";
import { replayMaxBytes, replayPartMaxBytes } from "../limits.ts";
import type { AcquiredSandbox } from "../session/acquire.ts";
import { aTask } from "../testing/task.ts";
import { remember } from "./memory.ts";
import type { Task } from "./schema.ts";

const later = 1e13;
let store: Deps["store"];
beforeEach(() => {
  store = createMemoryStore({ clock: { now: () => 1, sleep: async () => {} } });
});

/** A past turn: its prompt, and what its agent said in which batch. */
async function past(turn: number, prompt: string, batches: readonly AgentEvent[][], key?: string) {
  await store.putPrompt("task_1", { turn, key }, prompt, later);
  for (const [i, events] of batches.entries()) {
    const chunks = events.map((agent) => ({ at: 1, agent }));
    await store.putRecord("task_1", { kind: "output", turn, seq: i + 1, chunks }, later);
  }
  return { turn, outputSeq: batches.length, ...(key !== undefined && { key }) };
}

const text = (said: string): AgentEvent => ({ kind: "text", text: said });
const result = (said: string): AgentEvent => ({ kind: "result", ok: true, text: said });
const elsewhere = { origin: "cold", replaced: { reason: "gone", kept: false } } as AcquiredSandbox;

async function replay(turns: Task["past"], over: Partial<Task> = {}): Promise<string> {
  const conversation = { id: "c", sandbox: "s", at: 1 };
  const task = aTask({ agent: "claude", turn: turns.length + 1, past: turns, conversation, ...over });
  const memory = await remember({ store } as Deps, task, elsewhere);
  expect(memory.lost).toEqual(["conversation", "files"]);
  return memory.replay ?? "";
}

const turnTag = (turn: number, prompt: string, answer: string) =>
  `<turn number="${turn}">\nUser: ${prompt}\n\nYou: ${answer}\n</turn>`;

describe("a replayed turn", () => {
  it("has the result, otherwise all text, otherwise a note that there was no answer", async () => {
    const turns = [
      await past(1, "one", [[text("I think"), result("done")]]),
      await past(2, "two", [[text("first")], [text("second")]]),
      await past(3, "three", []),
    ];
    const told = [
      turnTag(1, "one", "done"),
      turnTag(2, "two", "first\nsecond"),
      turnTag(3, "three", "(no answer)"),
    ];
    expect(await replay(turns)).toContain(`\n\n${told.join("\n\n")}\n\nThe user now says:\n\n`);
    expect(await replay(turns)).not.toContain("left out");
  });

  it("comes from the end of the committed output", async () => {
    const said = await past(1, "one", [[text("1")], [text("2")], [text("3")], [text("4")], [text("torn")]]);
    expect(await replay([{ ...said, outputSeq: 4 }])).toContain(turnTag(1, "one", "2\n3\n4"));
  });

  it("omits prompts of requests that lost the race for the turn", async () => {
    await past(1, "the loser's", [], "-loser");
    const turns = [await past(1, "the winner's", [], "-winner")];
    const told = await replay(turns);
    expect(told).toContain("the winner's");
    expect(told).not.toContain("the loser's");
  });

  it.each([
    ["as long as it may be is whole", "x".repeat(replayPartMaxBytes), 0],
    ["one byte longer is cut", "x".repeat(replayPartMaxBytes + 1), 1],
    ["of many characters of several bytes is cut between two of them", "€😀".repeat(replayPartMaxBytes), 1],
  ])("a prompt or an answer %s", async (_what, long, cuts) => {
    const parts = /User: ([\s\S]*)\n\nYou: ([\s\S]*)\n<\/turn>/.exec(
      await replay([await past(1, long, [[result(long)]])]),
    );
    expect(parts).not.toBeNull();
    for (const part of parts?.slice(1) ?? []) {
      expect(Buffer.byteLength(part)).toBeLessThanOrEqual(replayPartMaxBytes);
      expect(Buffer.byteLength(part)).toBeGreaterThan(replayPartMaxBytes - 8);
      expect(part).not.toContain("�");
      expect(part.endsWith("… (cut)")).toBe(cuts === 1);
      expect(long.startsWith(part.replace("… (cut)", ""))).toBe(true);
    }
  });
});

describe("the replay of a long conversation", () => {
  /** Turns whose tags have exactly this many bytes each. */
  const turnsOf = async (count: number, bytes: number) => {
    const made: Task["past"] = [];
    for (let turn = 1; turn <= count; turn++) {
      const around = Buffer.byteLength(turnTag(turn, "", "(no answer)"));
      made.push(await past(turn, "x".repeat(bytes - around), []));
    }
    return made;
  };
  const numbers = (told: string) => [...told.matchAll(/<turn number="(\d+)">/g)].map(([, n]) => Number(n));

  it("fills the limit exactly", async () => {
    const told = await replay(await turnsOf(8, replayMaxBytes / 8));
    expect(numbers(told)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(told).not.toContain("left out");
  });

  it("drops the oldest turn for one byte more, and lists the rest oldest first", async () => {
    const turns = await turnsOf(8, replayMaxBytes / 8);
    await past(
      8,
      `${"x".repeat(replayMaxBytes / 8 - Buffer.byteLength(turnTag(8, "", "(no answer)")))}y`,
      [],
    );
    const told = await replay(turns);
    expect(numbers(told)).toEqual([2, 3, 4, 5, 6, 7, 8]);
    expect(told).toContain("The 1 oldest turns are left out.");
  });

  it("counts the turns left out", async () => {
    const told = await replay(await turnsOf(20, replayMaxBytes / 8));
    expect(numbers(told)).toEqual([13, 14, 15, 16, 17, 18, 19, 20]);
    expect(told).toContain("The 12 oldest turns are left out.");
  });
});

describe("nothing is replayed", () => {
  const none = { replay: undefined, conversationId: undefined };
  const conversation = { id: "c", sandbox: "s", at: 5 };

  it.each([
    ["in the first turn", aTask({ agent: "claude" }), elsewhere, { ...none, lost: [] }],
    ["to the shell", aTask({ turn: 2, conversation }), elsewhere, { ...none, lost: ["files"] }],
    [
      "after a reset",
      aTask({ agent: "claude", turn: 2, conversation }),
      { ...elsewhere, resetAt: 6 },
      { ...none, lost: ["files"] },
    ],
    [
      "where the sandbox still has the conversation",
      aTask({ agent: "claude", turn: 2, conversation }),
      { origin: "reused" } as AcquiredSandbox,
      { replay: undefined, conversationId: "c", lost: [] },
    ],
    [
      "where the session moved with all it has",
      aTask({ agent: "claude", turn: 2, conversation }),
      { origin: "snapshot", replaced: { reason: "max_life", kept: true } } as AcquiredSandbox,
      { replay: undefined, conversationId: "c", lost: [] },
    ],
  ])("%s", async (_when, task, room, memory) => {
    expect(await remember({ store } as Deps, task, room)).toEqual(
      Object.fromEntries(Object.entries(memory).filter(([, value]) => value !== undefined)),
    );
  });
});
