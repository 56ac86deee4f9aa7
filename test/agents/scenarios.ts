import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { alive } from "../testing/processes.ts";
import { startWorld, type World } from "./world.ts";

export interface Expected {
  agent: "claude" | "codex";
  program: string;
  key: string;
  /** The cost of 100 input and 7 output tokens. */
  callUsd: number;
  /** How a turn ends if its model cannot be reached, with three seconds of silence allowed. */
  unreachable: string;
}

/** What holds for an agent's real CLI, from our API to its model's. All in one session, so it is installed once. */
export function describeAgent({ agent, program, key, callUsd, unreachable }: Expected): void {
  let world: World;
  beforeAll(async () => {
    world = await startWorld(agent);
  });
  afterAll(async () => await world[Symbol.asyncDispose]());

  describe(`${agent}, from the API to its model's`, () => {
    it("is installed in a sandbox that does not have it, and answers", async () => {
      const { model, run, said, client } = world;
      model.script({ text: "hello there" });
      const task = await run("say hello");
      expect(task).toMatchObject({ status: "succeeded", result: { exitCode: 0, text: "hello there" } });
      expect(await said(task.id)).toEqual([
        { kind: "text", text: "hello there" },
        { kind: "result", ok: true, text: "hello there" },
      ]);
      expect(task.usage).toMatchObject({ inputTokens: 100, outputTokens: 7 });
      expect(task.usage.costUsd).toBeCloseTo(callUsd, 10);
      const output = (await client.output(task.id)).toString();
      expect(output).toContain("hello there");
      const [request] = model.requests;
      expect(request).toMatchObject({ key, user: expect.arrayContaining(["say hello"]) });
      expect(`${output}${world.log.join()}${JSON.stringify(await client.events(task.id))}`).not.toContain(
        key,
      );
    });

    it("runs a tool that changes a file, and says what it was given and gave", async () => {
      const { model, run, said } = world;
      model.script({ shell: "echo from-the-tool > made.txt; cat made.txt" }, { text: "I made it." });
      const task = await run("make a file");
      expect(task).toMatchObject({ status: "succeeded", result: { text: "I made it." } });
      const [use, result, ...rest] = await said(task.id);
      expect(use).toMatchObject({
        kind: "tool_use",
        input: expect.stringContaining("from-the-tool > made.txt"),
      });
      expect(result).toMatchObject({
        kind: "tool_result",
        ok: true,
        text: expect.stringContaining("from-the-tool"),
      });
      expect(rest.map(({ kind }) => kind)).toEqual(["text", "result"]);
      expect(task.usage.costUsd).toBeCloseTo(2 * callUsd, 10);
      expect(model.requests.at(-1)?.toolResults.join()).toContain("from-the-tool");
      const look = await run("cat made.txt", { agent: "shell" });
      expect(look.result?.text).toBe("from-the-tool\n");
    });

    it("remembers: the third turn's request has what was said in the first two", async () => {
      const { model, run } = world;
      model.script(
        { text: "The tile is there." },
        { text: "The subtile, too." },
        { text: "A tile and a subtile." },
      );
      const before = model.requests.length;
      const { id } = await run("create a tile");
      await world.continue(id, "now add a subtile");
      const task = await world.continue(id, "what did I just create?");
      expect(task).toMatchObject({
        status: "succeeded",
        turn: 3,
        notices: [],
        sandbox: { origin: "reused" },
      });
      expect(task.result?.text).toBe("A tile and a subtile.");
      const third = model.since(before).at(-1);
      const prompts = ["create a tile", "now add a subtile", "what did I just create?"];
      expect(third?.user.filter((text) => prompts.includes(text))).toEqual(prompts);
      expect(third?.assistant).toEqual(["The tile is there.", "The subtile, too."]);
      expect(model.since(before)).toHaveLength(3);
      expect(task.usage.costUsd).toBeCloseTo(3 * callUsd, 10);
    });

    it("keeps another task's conversation out of this one's, in the same sandbox", async () => {
      const { model, run } = world;
      model.script({ text: "ok" });
      const one = await run("the word is alpha");
      const two = await run("the word is beta");
      await world.continue(one.id, "which word?");
      expect(model.requests.at(-1)?.user.join()).not.toContain("beta");
      await world.continue(two.id, "which word?");
      expect(model.requests.at(-1)?.user.join()).not.toContain("alpha");
    });

    it("gets through where its model fails at first", async () => {
      const { model, run } = world;
      model.script({ status: 500 }, { text: "at last" });
      const task = await run("try");
      expect(task).toMatchObject({ status: "succeeded", result: { text: "at last" } });
    });

    it("has failed where its model refuses, and says why", async () => {
      const { model, run } = world;
      model.script({ status: 400 });
      const task = await run("try");
      expect(task).toMatchObject({ status: "failed", error: { code: "agent_failed" } });
      expect(task.result?.text).toContain("the stub answers 400");
    });

    it("is stopped while its model speaks, with nothing left alive, and remembers after it", async () => {
      const { model, run, start, client } = world;
      model.script({ text: "ok" });
      const { id } = await run("remember this");
      const before = model.requests.length;
      model.script({ text: "word ".repeat(1000), everyMs: 100 });
      await client.continue(id, "speak slowly");
      await expect.poll(() => model.since(before).length, { timeout: 30_000 }).toBe(1);
      expect(processesOf(id).join()).toContain(program);
      const stopped = await client.stop(id);
      expect(stopped).toMatchObject({
        httpStatus: 200,
        status: "stopped",
        error: { code: "stopped_by_user" },
      });
      expect(processesOf(id)).toEqual([]);

      model.script({ text: "I do" });
      const task = await world.continue(id, "do you remember?");
      expect(task).toMatchObject({ status: "succeeded", sandbox: { origin: "reused" } });
      expect(model.requests.at(-1)?.user).toContain("remember this");
      await expect(start("free again").then(({ id: next }) => world.ended(next))).resolves.toBeDefined();
    });

    it("is stopped while its tool runs, with nothing left alive", async () => {
      const { model, start, client } = world;
      model.script({ shell: "setsid sleep 1000 & tail -f /dev/null" }, { text: "never" });
      const { id } = await start("run for long");
      await expect.poll(() => processesOf(id).join(), { timeout: 30_000 }).toContain("sleep 1000");
      expect(await client.stop(id)).toMatchObject({ httpStatus: 200, status: "stopped" });
      expect(processesOf(id)).toEqual([]);
    });

    it("ends by its limits if its model cannot be reached", async () => {
      const { model, run } = world;
      await model.down();
      try {
        const task = await run("anyone?", { limits: { inactivityMs: 3000, maxDurationMs: 90_000 } });
        expect(task).toMatchObject({ status: "failed", error: { code: unreachable } });
        expect(processesOf(task.id)).toEqual([]);
      } finally {
        await model.up();
      }
    });

    it("whose model never answers is not taken for silent, and ends by its deadline", async () => {
      const { model, run } = world;
      model.script("hang");
      const task = await run("anyone?", { limits: { inactivityMs: 2000, maxDurationMs: 9000 } });
      expect(task).toMatchObject({ status: "timed_out", error: { code: "deadline_exceeded" } });
      expect(processesOf(task.id)).toEqual([]);
    });

    it("is ended within its turn where it has used more than it may", async () => {
      const { model, run } = world;
      model.script(
        { shell: "tail -f /dev/null", tokens: { input: 200_000, output: 100 } },
        { text: "never" },
      );
      const before = model.requests.length;
      const task = await run("spend", { limits: { maxCostUsd: 0.3 } });
      expect(model.since(before)).toHaveLength(1);
      expect(task).toMatchObject({ status: "failed", error: { code: "budget_exceeded" } });
      expect(task.usage.costUsd).toBeGreaterThan(0.3);
      expect(processesOf(task.id)).toEqual([]);
    });

    it("is told what was said where its sandbox is gone, and the user what was lost", async () => {
      const { model, run, provider } = world;
      model.script({ text: "The tile is there." });
      const first = await run("create a tile");
      await provider.remove(first.sandbox?.name ?? "");
      model.script({ text: "A tile." });
      const task = await world.continue(first.id, "what did I create?");
      expect(task).toMatchObject({ status: "succeeded", turn: 2, sandbox: { epoch: 2 } });
      const notice = task.notices.find(({ code }) => code === "context_lost");
      expect(notice?.detail).toMatch(/conversation[\s\S]*[Ff]iles/);
      const prompt = model.requests.at(-1)?.user.at(-1) ?? "";
      expect(prompt).toMatch(
        /replay[\s\S]*create a tile[\s\S]*The tile is there\.[\s\S]*what did I create\?$/,
      );
      expect(model.requests.at(-1)?.assistant).toEqual([]);
    });
  });
}

/** The task's processes, found by the marker that all of them have. */
function processesOf(id: string): string[] {
  return alive(`CONCIERGE_TASK=${id}`, "environ");
}
