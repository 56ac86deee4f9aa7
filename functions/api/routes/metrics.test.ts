import { followUp } from "@concierge/core/task/follow-up";
import parsePrometheus from "parse-prometheus-text-format";
import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver } from "../../../test/testing/driver.ts";

interface Metric {
  name: string;
  value: number | null;
  samples: number;
  met: boolean | null;
  target: { op: string; value: number } | null;
}

let on: Driver;
beforeEach(() => {
  on = createDriver();
});

const hour = 3_600_000;

async function metrics(window = "24h", key?: string, query = ""): Promise<Record<string, Metric>> {
  const path = `/v1/metrics?window=${window}${query}`;
  const { status, json } = await on.api.request("GET", path, key === undefined ? {} : { key });
  expect(status).toBe(200);
  expect(json.window).toBe(window);
  return Object.fromEntries(json.items.map((item: Metric) => [item.name, item]));
}

/** Runs a turn to its end and its follow-up, as one user. */
async function turn(key?: string, ms = 1000): Promise<string> {
  const { json } = await on.post("/v1/tasks", { prompt: "true" }, key);
  await on.api.work();
  const process = on.api.world.processes.at(-1);
  const { token } = JSON.parse(process?.env.CONCIERGE_TURN ?? "{}") as { token: string };
  on.api.advance(ms);
  expect((await on.end(token)).status).toBe(200);
  await on.api.work();
  return json.id;
}

describe("metrics", () => {
  it("count a turn, its sandbox and a stop", async () => {
    await turn();
    await turn();
    const { id } = await on.running();
    on.api.advance(500);
    expect((await on.stop(id)).status).toBe(200);
    await on.api.work();
    const found = await metrics("1h");
    expect(found.response_time).toMatchObject({ samples: 3, met: true, target: { op: "<=", value: 12_000 } });
    expect(found.reuse_rate).toMatchObject({ samples: 3, value: 2 / 3, met: false });
    expect(found.stop_success).toMatchObject({ samples: 1, value: 1, met: true });
    expect(found.cancellation_time?.samples).toBe(1);
    expect(found.inactivity_rate).toMatchObject({ samples: 3, value: 0, met: true });
    expect(found.vcpu_per_message?.samples).toBe(3);
    expect(found.cost_per_user).toMatchObject({ samples: 1 });
    expect(found.pool_size).toMatchObject({ value: 1, samples: 1, met: true });
    expect(found.health_check_failures).toMatchObject({ value: 0, target: null, met: null });
  });

  it("count each ended turn once, however often and concurrently its message is delivered", async () => {
    const { id, token } = await on.running();
    await on.end(token);
    const ended = on.api.sent.filter(({ kind }) => kind === "ended");
    expect(ended).toHaveLength(1);
    const again = Array.from({ length: 50 }, () => ended[0]).flatMap((message) => message ?? []);
    on.api.sent.push(...again);
    await on.api.work();
    const task = await on.api.deps.store.getTask(id);
    if (!task) throw new Error("no task");
    await Promise.all(Array.from({ length: 50 }, () => followUp(on.api.deps, task)));
    expect((await metrics()).response_time?.samples).toBe(1);
  });

  it("lose nothing when fifty turns of different users end at once", async () => {
    const { id, token } = await on.running();
    await on.end(token);
    const task = await on.api.deps.store.getTask(id);
    if (!task) throw new Error("no task");
    const tasks = Array.from({ length: 50 }, (_, at) => ({
      ...task,
      id: `${id}${at}`,
      userId: `u${at % 5}`,
    }));
    for (const one of tasks) await on.api.deps.store.createTask(one);
    await Promise.all(tasks.map((one) => followUp(on.api.deps, one)));
    expect((await metrics()).response_time?.samples).toBe(50);
    expect((await metrics("24h", undefined, "&userId=u3")).response_time?.samples).toBe(10);
  });

  it("add what is missing if one of the two sums failed, and nothing twice", async () => {
    const { store } = on.api.deps;
    const { addMeasures, addUsage } = store;
    const { token } = await on.running();
    await on.end(token);
    const [ended] = on.api.sent.filter(({ kind }) => kind === "ended");
    if (!ended) throw new Error("no message");
    const failing = async () => {
      throw new Error("throttled");
    };
    store.addUsage = failing;
    await expect(on.api.work()).rejects.toThrow("throttled");
    store.addUsage = addUsage;
    store.addMeasures = failing;
    on.api.sent.push(ended);
    await expect(on.api.work()).rejects.toThrow("throttled");
    store.addMeasures = addMeasures;
    on.api.sent.push(ended, ended);
    await on.api.work();
    expect((await metrics()).response_time?.samples).toBe(1);
    expect((await metrics("24h", undefined, "&userId=admin")).response_time?.samples).toBe(1);
  });

  it("cover the current clock hour and the window before it", async () => {
    // The clock starts at 12:00 and a few milliseconds.
    await turn();
    on.api.advance(hour);
    expect((await metrics("1h")).response_time?.samples).toBe(1);
    on.api.advance(hour);
    expect((await metrics("1h")).response_time?.samples).toBe(0);
    expect((await metrics("24h")).response_time?.samples).toBe(1);
    on.api.advance(22 * hour);
    expect((await metrics("24h")).response_time?.samples).toBe(1);
    on.api.advance(hour);
    expect((await metrics("24h")).response_time?.samples).toBe(0);
    on.api.advance((168 - 25) * hour);
    expect((await metrics("7d")).response_time?.samples).toBe(1);
    on.api.advance(hour);
    expect((await metrics("7d")).response_time?.samples).toBe(0);
  });

  it("show users their own turns, and admins all turns or one user's", async () => {
    const [ana, ben] = [await on.api.keyFor("ana"), await on.api.keyFor("ben")];
    await turn(ana);
    await turn(ben);
    await turn(ben);
    expect((await metrics("1h", ana)).response_time?.samples).toBe(1);
    expect((await metrics("1h", ben)).response_time?.samples).toBe(2);
    expect((await metrics("1h", ben)).cost_per_user?.samples).toBe(1);
    expect((await metrics("1h")).cost_per_user?.samples).toBe(2);
    expect((await metrics("1h")).response_time?.samples).toBe(3);
    expect((await metrics("1h", undefined, "&userId=ben")).response_time?.samples).toBe(2);
    const { status, json } = await on.api.request("GET", "/v1/metrics?userId=ben", { key: ana });
    expect([status, json.code]).toEqual([403, "forbidden"]);
  });

  it("need a key with tasks:read, and a known window", async () => {
    expect((await on.api.request("GET", "/v1/metrics", { key: "" })).status).toBe(401);
    const { json } = await on.post("/v1/keys", { scopes: ["sessions:read"] });
    const refused = await on.api.request("GET", "/v1/metrics", { key: json.key });
    expect([refused.status, refused.json.code]).toEqual([403, "missing_scope"]);
    expect((await on.api.request("GET", "/v1/metrics?window=2h")).status).toBe(400);
  });

  it("count a turn that never got a sandbox", async () => {
    const id = await on.start();
    expect((await on.stop(id)).status).toBe(200);
    await on.api.work();
    const found = await metrics();
    expect(found.inactivity_rate?.samples).toBe(1);
    expect(found.reuse_rate).toMatchObject({ samples: 0, value: null, met: null });
  });
});

describe("Prometheus' text format", () => {
  it.each(["text/plain", "text/plain; version=0.0.4", "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"])(
    "is answered to %s and accepted by a parser",
    async (accept) => {
      await turn();
      const { status, type, text } = await on.api.request("GET", "/v1/metrics?window=1h", {
        headers: { accept },
      });
      expect(status).toBe(200);
      expect(type).toContain("text/plain; version=0.0.4");
      const families = parsePrometheus(text);
      const byName = new Map(families.map((family) => [family.name, family]));
      expect(byName.get("concierge_response_time")).toMatchObject({
        type: "GAUGE",
        metrics: [{ labels: { window: "1h", unit: "ms" } }],
      });
      expect(Number(byName.get("concierge_response_time_samples")?.metrics[0]?.value)).toBe(1);
      expect(byName.get("concierge_reuse_rate_target")?.metrics[0]).toMatchObject({ value: "0.8" });
      for (const line of text.trim().split("\n"))
        expect(line).toMatch(/^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+\{[^}]*\} -?[0-9.e+-]+)$/);
    },
  );

  it("is not answered to a client that accepts anything", async () => {
    const { type } = await on.api.request("GET", "/v1/metrics", { headers: { accept: "*/*" } });
    expect(type).toContain("application/json");
  });
});
