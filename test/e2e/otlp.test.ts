import { describe, expect, it } from "vitest";
import { type Span, startOtlpCollector } from "../testing/otlp-collector.ts";
import { startConcierge } from "../testing/stack.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const callerSpan = "00f067aa0ba902b7";
const traceparent = `00-${traceId}-${callerSpan}-01`;
const canary = "canary-in-a-prompt-7431";

async function start(url: string, key: string, headers: Record<string, string> = {}): Promise<string> {
  const response = await fetch(`${url}/v1/tasks`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify({
      prompt: `echo ${canary}`,
      sessionKey: "traced",
      env: { SECRET: `${canary}-env` },
    }),
  });
  expect(response.status).toBe(202);
  return ((await response.json()) as { id: string }).id;
}

describe("OpenTelemetry", () => {
  it("exports one tree for one task: api, queue, worker, sandbox and runner", async () => {
    await using collector = await startOtlpCollector();
    await using concierge = await startConcierge({
      reapEveryMs: 3_600_000,
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
    });
    const { client, url, apiKey } = concierge;
    const id = await start(url, apiKey, { traceparent });
    expect((await client.ended(id)).status).toBe("succeeded");
    const ofTrace = () => collector.spans.filter((span) => span.traceId === traceId);
    const named = (name: string) => ofTrace().find((span) => span.name === name);
    // The runner's span is exported with its last post, and the follow-up's worker comes after it.
    await expect
      .poll(() => [named("runner"), named("Worker")].every(Boolean), { timeout: 15_000 })
      .toBe(true);

    const byId = new Map(ofTrace().map((span) => [span.spanId, span]));
    const path = (span: Span | undefined): string[] =>
      span ? [...path(byId.get(span.parentSpanId ?? "")), span.name] : [];
    expect(path(named("runner"))).toEqual(["POST /v1/tasks", "Worker queue", "Worker", "runner"]);
    expect(path(named("sandbox.create"))).toEqual([
      "POST /v1/tasks",
      "Worker queue",
      "Worker",
      "sandbox.create",
    ]);
    expect(path(named("POST /v1/runner/output"))).toEqual([
      "POST /v1/tasks",
      "Worker queue",
      "Worker",
      "POST /v1/runner/output",
    ]);
    // One tree: each span but the first has its parent in it, and the first continues the caller's.
    await expect
      .poll(() => {
        const known = new Set(ofTrace().map(({ spanId }) => spanId));
        return ofTrace()
          .filter(({ parentSpanId = "" }) => !known.has(parentSpanId))
          .map(({ name }) => name);
      })
      .toEqual(["POST /v1/tasks"]);
    expect(named("POST /v1/tasks")?.parentSpanId).toBe(callerSpan);
    for (const { startTimeUnixNano, endTimeUnixNano } of ofTrace())
      expect(BigInt(endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(startTimeUnixNano));
    const worker = ofTrace().find(({ name, attributes }) => name === "Worker" && attributes.length === 3);
    expect(worker?.attributes).toContainEqual({ key: "concierge.task", value: { stringValue: id } });

    await expect.poll(() => collector.metrics.has("concierge.turn_ended")).toBe(true);
    expect(collector.metrics).toContain("concierge.queued_ms");
    expect(new Set(collector.paths)).toEqual(
      new Set(["POST /v1/traces application/json", "POST /v1/metrics application/json"]),
    );
    const exported = collector.bodies.join("\n");
    for (const secret of [canary, apiKey]) expect(exported).not.toContain(secret);
  });

  it.each([
    ["never answers", () => {}],
    ["fails", (response: { writeHead(status: number): { end(): void } }) => response.writeHead(500).end()],
  ] as const)("delays and breaks nothing when the collector %s", async (_, answer) => {
    await using collector = await startOtlpCollector();
    collector.answer = answer as typeof collector.answer;
    await using concierge = await startConcierge({
      reapEveryMs: 3_600_000,
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
    });
    const { client, url, apiKey, log } = concierge;
    const id = await start(url, apiKey);
    expect((await client.ended(id)).status).toBe("succeeded");
    const slowest = await slowestOf(10, () => client.request("GET", `/v1/tasks/${id}`));
    // The export's own limit is five seconds; answers do not wait for it.
    expect(slowest).toBeLessThan(400);
    expect(await client.stop(id)).toMatchObject({ httpStatus: 200, status: "succeeded" });
    expect(collector.bodies.length).toBeGreaterThan(0);
    expect(log.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  });

  it("ignores a trace context that is not well formed, and one that is not sampled", async () => {
    await using collector = await startOtlpCollector();
    await using concierge = await startConcierge({
      reapEveryMs: 3_600_000,
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
    });
    const { client, url, apiKey } = concierge;
    await client.ended(await start(url, apiKey, { traceparent: `00-${"0".repeat(32)}-${callerSpan}-01` }));
    await expect.poll(() => collector.spans.some(({ name }) => name === "POST /v1/tasks")).toBe(true);
    const started = collector.spans.find(({ name }) => name === "POST /v1/tasks");
    expect(started?.parentSpanId ?? "").toBe("");
    await client.ended(await start(url, apiKey, { traceparent: `00-${traceId}-${callerSpan}-00` }));
    expect(collector.spans.filter((span) => span.traceId === traceId)).toEqual([]);
  });
});

async function slowestOf(times: number, work: () => Promise<Response>): Promise<number> {
  let slowest = 0;
  for (let i = 0; i < times; i++) {
    const from = performance.now();
    await (await work()).text();
    slowest = Math.max(slowest, performance.now() - from);
  }
  return slowest;
}
