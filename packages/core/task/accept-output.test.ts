import { beforeEach, describe, expect, it } from "vitest";
import { createTestApi } from "../../../test/testing/api.ts";
import { createDriver, type Driver } from "../../../test/testing/driver.ts";

const at = "2026-11-01T12:00:00.000Z";
const chunk = (text: string) => ({ stream: "stdout", at, data: Buffer.from(text).toString("base64") });

let api: Driver["api"];
let { running, say, end, get, post } = createDriver();
beforeEach(() => {
  ({ api, running, say, end, get, post } = createDriver());
});

const outputOf = async (id: string) => (await api.request("GET", `/v1/tasks/${id}/output`)).text;

/** As an agent would post that has read the runner's token. */
describe("output that is posted past the runner", () => {
  const env = {
    KEY: "canary-value-1",
    PEM: "-----BEGIN-----\ncanary line two\n-----END-----",
    QUOTED: 'can"ary\\3',
  };

  it("is masked before it is stored, in every form of a secret", async () => {
    const { id, token } = await running({ env });
    const printed = [env.KEY, "canary line two", JSON.stringify(env.PEM), JSON.stringify(env.QUOTED), token];
    await say(token, "output", { seq: 1, chunks: [chunk(`ok ${printed.join(" ")} ok`)] });
    const stored = await outputOf(id);
    expect(stored).toMatch(/^ok .* ok$/);
    for (const secret of ["canary", "can\\", token]) expect(stored).not.toContain(secret);
  });

  it("is masked in agent events and in the result", async () => {
    const { id, token } = await running({ env });
    const said = { at, agent: { kind: "tool_use", name: "Bash", input: `echo ${env.KEY}` } };
    await say(token, "output", { seq: 1, chunks: [said] });
    await end(token, { lastSeq: 1, text: `the key is ${env.KEY}` });
    const events = (await api.request("GET", `/v1/tasks/${id}/events`)).text;
    expect(events).toContain("echo ***");
    expect(events).not.toContain(env.KEY);
    expect((await get(id)).result.text).toBe("the key is ***");
  });

  it("is not stored beyond the limit, in any number of posts", async () => {
    const limited = createTestApi();
    Object.assign(limited.deps.config, { maxOutputBytes: 1000 });
    ({ api, running, say } = createDriver(limited));
    const { id, token } = await running();
    for (let seq = 1; seq <= 10; seq += 1)
      expect((await say(token, "output", { seq, chunks: [chunk("x".repeat(600))] })).json.action).toBe(
        "continue",
      );
    expect(await outputOf(id)).toHaveLength(1800);
    expect((await limited.deps.store.getTask(id))?.outputBytes).toBe(1800);
  });
});

describe("what earlier turns left running", () => {
  const left = { pid: 7, program: "node", taskId: "task_a", turn: 1, ended: false };

  it("is told once per turn", async () => {
    const { id, token } = await running();
    await say(token, "beat", { activity: "none", leftovers: [left] });
    await say(token, "output", { seq: 1, chunks: [chunk("x")], leftovers: [left] });
    const { notices } = await get(id);
    expect(notices).toHaveLength(1);
    expect(notices[0]).toMatchObject({ code: "leftovers", turn: 1 });
    expect(notices[0].detail).toContain("node (process 7 of task_a, turn 1) keeps running");
    await end(token, { lastSeq: 1 });
    const events = (await api.request("GET", `/v1/tasks/${id}/events`)).json.items;
    expect(events.filter(({ type }: { type: string }) => type === "notice")).toHaveLength(1);
  });

  it("is kept or ended as the request says", async () => {
    const policyOf = () => JSON.parse(api.world.processes.at(-1)?.env.CONCIERGE_TURN ?? "{}").leftovers;
    const { id, token } = await running();
    expect(policyOf()).toBeUndefined();
    await end(token);
    await post(`/v1/tasks/${id}/continue`, { prompt: "again", leftovers: "end" });
    await api.work();
    expect(policyOf()).toBe("end");
    await running({ leftovers: "keep", sessionKey: "b" });
    expect(policyOf()).toBe("keep");
    expect((await post("/v1/tasks", { prompt: "x", leftovers: "burn" })).status).toBe(400);
  });
});
