import { describe, expect, it } from "vitest";
import { startHostileEdge, strangeAnswers } from "../testing/hostile-edge.ts";
import { startConcierge } from "../testing/stack.ts";

describe("an edge that answers in Concierge's place", () => {
  it("ends no agent: each works on, and its output arrives in order afterwards", async () => {
    await using edge = await startHostileEdge();
    await using concierge = await startConcierge({ callbackUrl: edge.url });
    edge.leadTo(concierge.url);
    const { client } = concierge;
    // It counts while the edge refuses everything, and ends only after that.
    const script =
      "for i in $(seq 30); do echo line $i; sleep 0.2; done; touch done; until [ -e go ]; do sleep 0.1; done";
    const task = await client.start(script, { sessionKey: "edge" });
    await client.until(task.id, ({ status }) => status === "running");
    edge.setHostile(true);
    await until(() => edge.refused() > strangeAnswers.length);
    const heard = (await client.output(task.id)).toString();
    await until(() => edge.refused() > 2 * strangeAnswers.length);
    expect((await client.get(task.id)).status).toBe("running");
    expect((await client.output(task.id)).toString()).toBe(heard);

    edge.setHostile(false);
    const exec = (command: string, args: string[]) =>
      client.json("POST", "/v1/sessions/edge/exec", { command, args });
    await exec("bash", ["-c", "until [ -e done ]; do sleep 0.1; done; touch go"]);
    expect(await client.ended(task.id)).toMatchObject({ status: "succeeded", result: { exitCode: 0 } });
    const lines = Array.from({ length: 30 }, (_, i) => `line ${i + 1}\n`).join("");
    expect((await client.output(task.id)).toString()).toBe(lines);
  }, 120_000);
});

describe("a task without output", () => {
  it("has empty output at once, even while it runs", async () => {
    await using concierge = await startConcierge();
    const { id } = await concierge.client.start("sleep 60");
    for (const state of ["queued", "running"]) {
      if (state === "running") await concierge.client.until(id, ({ status }) => status === "running");
      const response = await concierge.client.request("GET", `/v1/tasks/${id}/output`);
      expect([response.status, response.headers.get("content-type"), await response.text()]).toEqual([
        200,
        "text/plain; charset=utf-8",
        "",
      ]);
    }
    await concierge.client.stop(id);
  });
});

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20));
}
