import { describe, expect, it } from "vitest";
import { AppError } from "../errors.ts";
import type { Phase } from "../task/schema.ts";
import { aTask } from "../testing/task.ts";
import { beginning, formatCursor, parseCursor } from "./cursor.ts";
import { mergeEvents } from "./read.ts";
import type { EventRecord, TaskEvent } from "./schema.ts";

const phase = (turn: number, status: Phase["status"], at: number): Phase => ({
  turn,
  status,
  at,
  by: "worker",
});
const progress = (turn: number, at: number, step = "creating"): EventRecord => ({
  kind: "progress",
  turn,
  seq: at,
  at,
  step,
  detail: "",
});
const output = (turn: number, seq: number, ...texts: string[]): EventRecord => ({
  kind: "output",
  turn,
  seq,
  chunks: texts.map((text) => ({ stream: "stdout", at: 5, data: Buffer.from(text) })),
});

const phases = [
  phase(1, "queued", 1),
  phase(1, "provisioning", 2),
  phase(1, "running", 4),
  phase(1, "succeeded", 4),
  phase(2, "queued", 10),
  phase(2, "provisioning", 11),
];
const records = [progress(1, 3), output(1, 1, "a", "b"), output(1, 2, "c"), progress(2, 12)];
const task = aTask({
  turn: 2,
  phases,
  phaseCount: phases.length,
  notices: [{ code: "n", detail: "", turn: 1, at: 4 }],
});
const short = (items: readonly TaskEvent[]) => items.map(label);
const whole = [
  "queued",
  "provisioning",
  "creating",
  "running",
  "a",
  "b",
  "c",
  "n",
  "succeeded",
  "queued",
  "provisioning",
  "creating",
];

describe("a task's events", () => {
  it("merge phases, progress, output and notices, with a turn's end last", () => {
    expect(short(mergeEvents(task, records, beginning, false).items)).toEqual(whole);
  });

  it("continue from any event's cursor with exactly what follows", () => {
    const all = mergeEvents(task, records, beginning, false).items;
    for (const [i, { cursor }] of all.entries()) {
      const from = parseCursor(cursor);
      const rest = records.filter(
        (r) => r.turn > from.record.turn || (r.turn === from.record.turn && order(r) >= order(from.record)),
      );
      expect(mergeEvents(task, rest, from, false).items).toEqual(all.slice(i + 1));
    }
  });

  it("hold a turn's end back while more output is to come", () => {
    const page = mergeEvents(task, records.slice(0, 2), beginning, true);
    expect(short(page.items)).toEqual(whole.slice(0, 6));
    const next = mergeEvents(task, records.slice(1), page.cursor, false);
    expect(short(next.items)).toEqual(whole.slice(6));
  });

  it("end at the same cursor when nothing is new", () => {
    const { cursor } = mergeEvents(task, records, beginning, false);
    expect(mergeEvents(task, records.slice(-1), cursor, false)).toEqual({ items: [], cursor });
  });

  it("continue when the oldest phases are dropped", () => {
    const trimmed = { ...task, phases: phases.slice(4), phaseCount: 6 };
    const from = {
      ...beginning,
      phases: 5,
      notices: 1,
      record: { turn: 2, kind: "progress", seq: 12 } as const,
      chunks: 1,
    };
    expect(short(mergeEvents(trimmed, [progress(2, 12)], from, false).items)).toEqual(["provisioning"]);
  });

  const order = ({ kind, seq }: { kind: string; seq: number }) => (kind === "progress" ? 0 : 1e15) + seq;
});

describe("a cursor", () => {
  it("round-trips", () => {
    const cursor = {
      phases: 3,
      notices: 1,
      record: { turn: 2, kind: "output", seq: 77 } as const,
      chunks: 4,
    };
    expect(parseCursor(formatCursor(cursor))).toEqual(cursor);
    expect(parseCursor(undefined)).toEqual(beginning);
  });

  it.each(["x", "1.2", "-1.0.1p1.0", "1.0.1q1.0", "1.0.1p1.0.", "1e9.0.1p1.0"])(
    "is refused as %s",
    (text) => {
      expect(() => parseCursor(text)).toThrow(AppError);
    },
  );
});

function label(event: TaskEvent): string {
  switch (event.type) {
    case "status":
      return event.status;
    case "output":
      return event.text;
    case "progress":
      return event.step;
    case "agent":
      return event.agent.kind;
    case "notice":
      return event.code;
  }
}
