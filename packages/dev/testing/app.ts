/** A Hono application behind `streamHandle`, like the real API function. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { Hono } from "hono";
import { type LambdaContext, type LambdaEvent, streamHandle } from "hono/aws-lambda";
import { stream } from "hono/streaming";
import { Resource } from "sst";
import { note } from "./notes.ts";

if (existsSync(`${process.env.FIXTURE_NOTES}.broken`)) throw new Error("this function does not start");

type Bindings = { event: LambdaEvent; context: LambdaContext };

const app = new Hono<{ Bindings: Bindings }>();
let requests = 0;
let zerosWritten = 0;
let release = Promise.withResolvers<void>();

app.get("/healthz", (c) => c.json({ status: "ok" }));
app.all("/event/*", (c) => c.json(c.env.event));
app.get("/context", (c) => {
  const { context } = c.env;
  return c.json({ ...context, remainingMs: context.getRemainingTimeInMillis() });
});
app.post("/echo", async (c) => c.body(await c.req.arrayBuffer(), 201, { "x-fixture": "echo" }));
app.get("/cookies", (c) => {
  c.header("set-cookie", "a=1; Path=/");
  c.header("set-cookie", "b=2", { append: true });
  return c.body(null, 204);
});
app.get("/memory", (c) => c.json({ pid: process.pid, requests: ++requests }));
app.get("/environment", (c) => c.json(process.env));
app.get("/resource/:name", (c) => {
  const resources = Resource as unknown as Record<string, unknown>;
  try {
    return c.json(resources[c.req.param("name")]);
  } catch (error) {
    return c.text(String(error), 404);
  }
});
app.get("/two-parts", (c) =>
  stream(c, async (body) => {
    await body.write("first");
    await release.promise;
    release = Promise.withResolvers();
    await body.write("second");
  }),
);
app.post("/release", (c) => {
  release.resolve();
  return c.body(null, 204);
});
app.get("/zeros", (c) => c.json(zerosWritten));
app.get("/zeros/:megabytes", (c) =>
  stream(c, async (body) => {
    const total = Number(c.req.param("megabytes"));
    for (zerosWritten = 0; zerosWritten < total; zerosWritten++) await body.write(new Uint8Array(1024 ** 2));
  }),
);
app.get("/die", () => process.kill(process.pid, "SIGKILL") && new Promise<never>(() => {}));
app.get("/die-in-the-middle", (c) =>
  stream(c, async (body) => {
    await body.write("beginning");
    await release.promise;
    process.kill(process.pid, "SIGKILL");
  }),
);
app.get("/logged", (c) => {
  const request = { method: "GET", path: "/logged", status: "204", durationMs: "7", http_requests: 1 };
  console.log(JSON.stringify({ _aws: { Timestamp: Date.now() }, ...request }));
  return c.body(null, 204);
});
app.post("/spawn", (c) => c.json({ pid: spawn("sleep", ["600"], { stdio: "ignore" }).pid }));
app.get("/hang", () => new Promise<never>(() => {}));
app.get("/block", () => {
  note("blocked");
  for (;;);
});

export const handler = streamHandle(app);
