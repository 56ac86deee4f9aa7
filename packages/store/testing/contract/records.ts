import type { EventRecord, OutputBatch } from "@concierge/core";
import { describe, expect, it } from "vitest";
import { type Fixture, stampede } from "./fixture.ts";

/** Records and prompts of a task. */
export function recordContract(on: Fixture): void {
  describe("records", () => {
    it("are read in order with their bytes: a turn's progress, then its output", async () => {
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
      expect(Buffer.from(bytesOf(first.chunks[0])).equals(Buffer.from(bytes))).toBe(true);

      const rest = await on.store.readRecords(id, { turn: 1, kind: "output", seq: 10 }, 2);
      expect(rest.records.map(({ turn, seq }) => [turn, seq])).toEqual([
        [1, 10],
        [2, 1],
      ]);
    });

    it("keep their first version if they are written again", async () => {
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
      expect(Buffer.from(bytesOf(record.chunks[0])).toString()).toBe("first");
    });

    it("keep agent events and output bytes in order", async () => {
      const { id, expiresAt } = on.aTask();
      const agent = { kind: "tool_use", name: "Bash", input: "{}" } as const;
      const chunks = [{ stream: "stdout", at: 1, data: Buffer.from("x") } as const, { at: 2, agent }];
      await on.store.putRecord(id, { kind: "output", turn: 1, seq: 1, chunks }, expiresAt);
      const [record] = (await on.store.readRecords(id, { turn: 1, kind: "output", seq: 1 }, 1)).records;
      expect(record?.kind === "output" && record.chunks[1]).toEqual({ at: 2, agent });
    });
  });

  describe("a task's prompts", () => {
    it("are stored per turn and read in order up to a turn", async () => {
      const { id, expiresAt } = on.aTask();
      const key = undefined;
      for (const turn of [2, 1, 10, 3])
        await on.store.putPrompt(id, { turn, key }, `prompt ${turn}`, expiresAt);
      const before = await on.store.readPrompts(id, 10);
      expect(before).toEqual([1, 2, 3].map((turn) => ({ turn, key, prompt: `prompt ${turn}` })));
      expect(await on.store.readPrompts(id, 1)).toEqual([]);
    });

    it("are stored separately for requests that race for a turn", async () => {
      const { id, expiresAt } = on.aTask();
      for (const key of ["a", "b", undefined])
        await on.store.putPrompt(id, { turn: 2, key }, `by ${key}`, expiresAt);
      expect(await on.store.getPrompt(id, { turn: 2, key: "b" })).toBe("by b");
      expect(await on.store.getPrompt(id, { turn: 2, key: undefined })).toBe("by undefined");
      expect(await on.store.getPrompt(id, { turn: 2, key: "c" })).toBeUndefined();
      const read = await on.store.readPrompts(id, 3);
      expect(read.map(({ key }) => key).sort()).toEqual(["a", "b", undefined].sort());
    });
  });
}

function bytesOf(chunk: OutputBatch["chunks"][number] | undefined): Uint8Array {
  return chunk && "data" in chunk ? chunk.data : new Uint8Array();
}
