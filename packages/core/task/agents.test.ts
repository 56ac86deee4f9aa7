import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver } from "../../../test/testing/driver.ts";

let api: Driver["api"];
let { get, post, running, end, start, say } = createDriver();
beforeEach(() => {
  ({ api, get, post, running, end, start, say } = createDriver());
});

const used = (costUsd: number) => ({ inputTokens: 100, outputTokens: 10, costUsd });
const answered = (text: string) => ({
  at: "2026-11-01T12:00:00.000Z",
  agent: { kind: "result", ok: true, text },
});
const turnOf = (at = -1) => JSON.parse(api.world.processes.at(at)?.env.CONCIERGE_TURN ?? "{}");
const promptOf = (id: string, turn: number) => {
  const name = api.world.processes.at(-1)?.sandbox ?? "";
  return api.world.files(name)?.get(`/tmp/concierge/${id}-${turn}/prompt`);
};

/** A turn of claude that answers, with its own conversation. */
async function converse(prompt: string, answer: string) {
  const { id, token } = await running({ agent: "claude", prompt });
  await say(token, "output", {
    seq: 1,
    chunks: [answered(answer)],
    usage: used(0.5),
    conversationId: "conv-1",
  });
  await end(token, { lastSeq: 1, text: answer, usage: used(0.6), conversationId: "conv-1" });
  await api.work();
  return id;
}
async function goOn(id: string, prompt: string) {
  await post(`/v1/tasks/${id}/continue`, { prompt });
  await api.work();
}

describe("an agent's memory", () => {
  it("is its own conversation if the sandbox still has it", async () => {
    const id = await converse("create a tile", "It is made.");
    await goOn(id, "now add a subtile");
    expect(turnOf()).toMatchObject({ agent: "claude", conversationId: "conv-1" });
    expect(promptOf(id, 2)).toBe("now add a subtile");
    expect((await get(id)).notices).toEqual([]);
  });

  it("is replayed if the sandbox is gone, and the user is told what was lost", async () => {
    const id = await converse("create a tile", "It is made.");
    api.world.lose(api.world.created[0] ?? "");
    await goOn(id, "now add a subtile");
    expect(turnOf()).not.toHaveProperty("conversationId");
    const prompt = promptOf(id, 2) ?? "";
    expect(prompt).toMatch(/replay[\s\S]*create a tile[\s\S]*It is made\.[\s\S]*now add a subtile$/);
    const [notice] = (await get(id)).notices;
    expect(notice).toMatchObject({ code: "context_lost", turn: 2 });
    expect(notice.detail).toMatch(/conversation[\s\S]*Files/);
  });

  it("is bounded when it is replayed: the newest turns, and how many are left out", async () => {
    const id = await converse("the first thing", "done");
    for (let turn = 2; turn <= 14; turn++) {
      await goOn(id, `${turn} ${"x".repeat(5000)}`);
      await end(turnOf().token);
      await api.work();
    }
    api.world.lose(api.world.created[0] ?? "");
    await goOn(id, "and now?");
    const prompt = promptOf(id, 15) ?? "";
    expect(Buffer.byteLength(prompt)).toBeLessThan(52 * 1024);
    expect(prompt).not.toContain("the first thing");
    expect(prompt).toContain("14 xxx");
    expect(prompt).toContain("oldest turns are left out");
  });

  it("starts anew after a reset in the same sandbox, with nothing replayed", async () => {
    const id = await converse("create a tile", "It is made.");
    api.advance(1000);
    await post("/v1/sessions/default/reset");
    await goOn(id, "hello");
    expect(turnOf()).not.toHaveProperty("conversationId");
    expect(promptOf(id, 2)).toBe("hello");
    expect((await get(id)).sandbox.origin).toBe("reused");
  });

  it("is replayed if the agent could not resume it in the same sandbox", async () => {
    const id = await converse("create a tile", "It is made.");
    await goOn(id, "now add a subtile");
    await end(turnOf().token, { exitCode: 1, text: "No conversation found" });
    await api.work();
    await goOn(id, "again");
    expect(turnOf()).not.toHaveProperty("conversationId");
    expect(promptOf(id, 3)).toMatch(/replay[\s\S]*create a tile[\s\S]*again$/);
  });

  it("is empty for the shell: its prompt is its script", async () => {
    const { id, token } = await running();
    await end(token);
    api.world.lose(api.world.created[0] ?? "");
    await goOn(id, "echo more");
    expect(promptOf(id, 2)).toBe("echo more");
  });
});

describe("an agent's usage", () => {
  it("is summed over all turns", async () => {
    const id = await converse("a", "b");
    expect((await get(id)).usage).toEqual(used(0.6));
    await goOn(id, "c");
    await say(turnOf().token, "beat", { activity: "model", usage: used(0.2) });
    expect((await get(id)).usage).toEqual({ inputTokens: 200, outputTokens: 20, costUsd: 0.8 });
  });

  it("ends the turn, with proof, when it exceeds the budget over all turns", async () => {
    const { id, token, process } = await running({ agent: "claude", limits: { maxCostUsd: 1 } });
    const spend = async (seq: number, costUsd: number) =>
      (await say(token, "output", { seq, chunks: [answered("x")], usage: used(costUsd) })).json.action;
    expect(await spend(1, 1)).toBe("continue");
    expect(await spend(2, 1.01)).toBe("stop");
    expect((await get(id)).status).toBe("stopping");
    await api.fire("terminate");
    expect(await get(id)).toMatchObject({ status: "failed", error: { code: "budget_exceeded" } });
    expect(process.alive).toBe(false);
  });
});

describe("an agent's key", () => {
  it("enters the sandbox only if the provider cannot inject it", async () => {
    await running({ agent: "claude" });
    expect(turnOf().agentEnv).toEqual({ ANTHROPIC_API_KEY: "canary-agent-key" });

    api.deps.provider.guardNetwork = async () => "guarded";
    await running({ agent: "claude", sessionKey: "b", network: { allow: ["registry.npmjs.org"] } });
    expect(JSON.stringify(turnOf())).not.toContain("canary-agent-key");
    await running({ sessionKey: "c" });
    expect(turnOf().agentEnv).toEqual({});
  });

  it("ends the turn if it is missing, names it, and is not retried", async () => {
    const id = await start({ agent: "codex" });
    await api.work();
    expect(await get(id)).toMatchObject({
      status: "failed",
      error: { code: "provision_failed", detail: expect.stringContaining("OPENAI_API_KEY") },
    });
  });
});

describe("an agent's events", () => {
  it("are in order, and not in the output", async () => {
    const { id, token } = await running({ agent: "claude" });
    const at = "2026-11-01T12:00:00.000Z";
    const data = Buffer.from("raw\n").toString("base64");
    const tool = { at, agent: { kind: "tool_use", name: "Bash", input: '{"command":"ls"}' } };
    await say(token, "output", { seq: 1, chunks: [{ stream: "stdout", at, data }, tool, answered("fine")] });
    const { items } = (await api.request("GET", `/v1/tasks/${id}/events`)).json;
    expect(items.slice(-3)).toMatchObject([
      { type: "output", text: "raw\n" },
      { type: "agent", agent: { kind: "tool_use", name: "Bash" } },
      { type: "agent", agent: { kind: "result", text: "fine" } },
    ]);
    expect((await api.request("GET", `/v1/tasks/${id}/output`)).text).toBe("raw\n");
  });

  it("are bounded, and an invalid report is rejected", async () => {
    const { token } = await running({ agent: "claude" });
    const chunk = answered("x");
    for (const body of [
      { seq: 1, chunks: Array.from({ length: 2001 }, () => chunk) },
      { seq: 1, chunks: [answered("x".repeat(100_000))] },
      { seq: 1, chunks: [chunk], usage: { ...used(1), costUsd: -1 } },
      { seq: 1, chunks: [chunk], conversationId: "--resume" },
      { seq: 1, chunks: [{ ...chunk, agent: { kind: "gossip" } }] },
    ])
      expect((await say(token, "output", body)).status).toBe(400);
    expect((await say(token, "output", { seq: 1, chunks: [chunk] })).json.action).toBe("continue");
  });

  it("of a failed installation end the turn", async () => {
    const { id, token } = await running({ agent: "claude" });
    await end(token, { reason: "install_failed", exitCode: null, detail: "exited with 1: E404" });
    expect(await get(id)).toMatchObject({
      status: "failed",
      error: { code: "provision_failed", detail: expect.stringContaining("E404") },
    });
  });
});
