import type { EventRecord } from "@concierge/core";
import { describe, expect, it } from "vitest";
import { type Fixture, stampede } from "./fixture.ts";

/** What a turn said. */
export function recordContract(on: Fixture): void {
  describe("records", () => {
    it("come back in order, bytes and all: a turn's progress, then its output", async () => {
      const { id, expiresAt } = on.aTask();
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
      for (const seq of [10, 2, 1]) await on.store.putRecord(id, output(1, seq), expiresAt);
      await on.store.putRecord(id, output(2, 1), expiresAt);
      await on.store.putRecord(id, progress, expiresAt);

      const { records } = await on.store.readRecords(id, { turn: 0, kind: "progress", seq: 0 }, 1);
      expect(records.map(({ turn, kind, seq }) => [turn, kind, seq])).toEqual([
        [1, "progress", progress.seq],
        [1, "output", 1],
        [1, "output", 2],
        [1, "output", 10],
      ]);
      const [, first] = records;
      if (first?.kind !== "output") throw new Error("not an output record");
      expect(Buffer.from(first.chunks[0]?.data ?? []).equals(Buffer.from(bytes))).toBe(true);

      const rest = await on.store.readRecords(id, { turn: 1, kind: "output", seq: 10 }, 2);
      expect(rest.records.map(({ turn, seq }) => [turn, seq])).toEqual([
        [1, 10],
        [2, 1],
      ]);
    });

    it("written again, by however many, stay as they were first", async () => {
      const { id, expiresAt } = on.aTask();
      const from = { turn: 1, kind: "output", seq: 1 } as const;
      const put = (text: string) =>
        on.store.putRecord(
          id,
          { ...from, chunks: [{ stream: "stderr", at: 1, data: Buffer.from(text) }] },
          expiresAt,
        );
      await put("first");
      await stampede((i) => put(`again ${i}`));
      const [record] = (await on.store.readRecords(id, from, 1)).records;
      if (record?.kind !== "output") throw new Error("not an output record");
      expect(Buffer.from(record.chunks[0]?.data ?? []).toString()).toBe("first");
    });
  });
}
