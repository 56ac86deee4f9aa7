import type { Task } from "@concierge/core";
import { describe, expect, it } from "vitest";
import { type Fixture, stampede, winners } from "./fixture.ts";

/** Tasks under every condition of a write. */
export function taskContract(on: Fixture): void {
  describe("a task", () => {
    it("is read as it was written, with secrets and metadata", async () => {
      const task = await on.saved({
        sealed: "c2VhbGVk",
        metadata: { k: "v", constructor: "c" },
        prompt: "echo ✓",
      });
      expect(await on.store.getTask(task.id)).toEqual(task);
    });

    it("is undefined and cannot be changed if it does not exist", async () => {
      expect(await on.store.getTask("task_none")).toBeUndefined();
      const outcome = await on.store.changeTask(
        "task_none",
        { turn: 1, status: ["queued"] },
        { set: { outputSeq: 1 } },
      );
      expect(outcome).toEqual({ won: false, item: undefined });
      expect(await on.store.getTask("task_none")).toBeUndefined();
    });

    it("is created once under concurrency", async () => {
      const task = on.aTask();
      const outcomes = await stampede((i) => on.store.createTask({ ...task, prompt: `contender ${i}` }));
      expect(winners(outcomes)).toHaveLength(1);
      const [winner] = winners(outcomes);
      for (const outcome of outcomes) expect(outcome.item?.prompt).toBe(winner?.item?.prompt);
    });

    it("is claimed once, with its phase in the same write", async () => {
      const task = await on.saved();
      const outcomes = await stampede((i) =>
        on.store.changeTask(
          task.id,
          { turn: 1, status: ["queued"] },
          {
            set: { state: provisioning(`claim ${i}`, on.now() + 1000) },
            phase: { turn: 1, status: "provisioning", at: on.now(), by: "worker", note: `claim ${i}` },
          },
        ),
      );
      expect(winners(outcomes)).toHaveLength(1);
      const after = await on.store.getTask(task.id);
      expect(after).toEqual(winners(outcomes)[0]?.item);
      expect(after?.phases).toHaveLength(2);
      expect(after?.phaseCount).toBe(2);
      expect(after?.state).toMatchObject({ status: "provisioning", claim: { id: after?.phases[1]?.note } });
    });

    it("is taken over once after its claim expired, and not before", async () => {
      const until = on.now() + 1000;
      const task = await on.saved({ state: provisioning("first", until) });
      const takeOver = (now: number) => (i: number) =>
        on.store.changeTask(
          task.id,
          { turn: 1, status: ["provisioning"], claimUntilBefore: now },
          { set: { state: provisioning(`second ${i}`, until + 5000) } },
        );
      expect(winners(await stampede(takeOver(until)))).toHaveLength(0);
      expect(winners(await stampede(takeOver(until + 1)))).toHaveLength(1);
    });

    it("has its claim renewed only by the holder", async () => {
      const task = await on.saved({ state: provisioning("mine", on.now()) });
      const renew = (claimId: string) =>
        on.store.changeTask(
          task.id,
          { turn: 1, status: ["provisioning"], claimId },
          { set: { state: provisioning(claimId, on.now() + 9000) } },
        );
      expect(await renew("other")).toMatchObject({
        won: false,
        item: { state: { claim: { id: "mine" } } },
      });
      expect(await renew("mine")).toMatchObject({
        won: true,
        item: { state: { claim: { until: on.now() + 9000 } } },
      });
    });

    it("commits each batch of output once, in order", async () => {
      const task = await on.saved({ state: { status: "running", commandId: "cmd" } });
      const commit = (seq: number) =>
        on.store.changeTask(
          task.id,
          { turn: 1, status: ["running"], outputSeq: seq - 1 },
          { set: { outputSeq: seq, lastActivityAt: on.now() + seq } },
        );
      expect(winners(await stampede(() => commit(1)))).toHaveLength(1);
      expect(await commit(3)).toMatchObject({ won: false, item: { outputSeq: 1 } });
      expect(await commit(2)).toMatchObject({ won: true, item: { outputSeq: 2 } });
    });

    it("is granted its push once, and never after its deadline", async () => {
      const task = await on.saved({ state: { status: "running", commandId: "c" }, deadlineAt: 1000 });
      const push = { commit: "c", branch: "b", exitCode: 0, text: "" };
      const grant = (now: number) => () =>
        on.store.changeTask(
          task.id,
          { turn: 1, status: ["running"], deadlineAfter: now },
          { set: { state: { status: "finalizing", push, finalizeBy: 9 } } },
        );
      expect(winners(await stampede(grant(1000)))).toHaveLength(0);
      expect(winners(await stampede(grant(999)))).toHaveLength(1);
    });

    it("grants its clone credential to one nonce, repeatedly, and to no other", async () => {
      const task = await on.saved({ state: { status: "running", commandId: "c" } });
      const ask = (nonce: string) =>
        on.store.changeTask(
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

    it("is counted once per turn, even if a later turn runs", async () => {
      const task = await on.saved({ turn: 3, state: { status: "running", commandId: "c" } });
      const count = (uncounted: number) =>
        on.store.changeTask(
          task.id,
          { turn: 3, status: ["running"], uncounted },
          { set: { countedTurn: uncounted } },
        );
      expect(winners(await stampede(() => count(2)))).toHaveLength(1);
      expect((await count(1)).won).toBe(false);
      expect((await count(3)).won).toBe(true);
    });

    it("continues to its next turn once", async () => {
      const task = await on.saved({
        state: {
          status: "stopped",
          endedAt: 1,
          result: null,
          error: { code: "stopped_by_user", detail: "" },
        },
      });
      const outcomes = await stampede((i) =>
        on.store.changeTask(
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
      expect(await on.store.getTask(task.id)).toMatchObject({
        turn: 2,
        phases: [],
        past: [{ turn: 1, outputSeq: 0 }],
      });
    });

    it("is not changed by a write for another turn", async () => {
      const task = await on.saved({ turn: 2 });
      for (const turn of [1, 3]) {
        const outcome = await on.store.changeTask(
          task.id,
          { turn, status: ["queued"] },
          { set: { outputSeq: 9 } },
        );
        expect(outcome).toEqual({ won: false, item: task });
      }
    });

    it("ends once, and loses attributes that an ended task does not have", async () => {
      const task = await on.saved({
        state: { status: "running", commandId: "cmd" },
        sealed: "eA==",
        dueAt: 5,
      });
      const outcomes = await stampede((i) =>
        on.store.changeTask(
          task.id,
          { turn: 1, status: ["running"] },
          {
            set: { state: { status: "succeeded", endedAt: on.now(), result: null } },
            remove: ["sealed", "dueAt"],
            phase: { turn: 1, status: "succeeded", at: on.now(), by: "runner", note: String(i) },
            notice: { code: "n", detail: String(i), turn: 1, at: on.now() },
          },
        ),
      );
      expect(winners(outcomes)).toHaveLength(1);
      const after = await on.store.getTask(task.id);
      expect(after?.state).toEqual({ status: "succeeded", endedAt: on.now(), result: null });
      expect(after).not.toHaveProperty("sealed");
      expect(after?.notices).toHaveLength(1);
      expect(after?.phases).toHaveLength(2);
    });

    it("does not exist from its expiry on, even while the table still has it", async () => {
      const task = await on.saved({ userId: on.user(), expiresAt: on.now() + 1000 });
      on.advance(1000);
      expect(await on.store.getTask(task.id)).toBeUndefined();
      const outcome = await on.store.changeTask(
        task.id,
        { turn: 1, status: ["queued"] },
        { set: { outputSeq: 1 } },
      );
      expect(outcome).toEqual({ won: false, item: undefined });
      expect((await on.store.listTasks(task.userId, { limit: 10 })).items).toEqual([]);
    });
  });
}

function provisioning(id: string, until: number): Task["state"] {
  return { status: "provisioning", claim: { id, until } };
}
