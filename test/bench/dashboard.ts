/**
 * The dashboard in Chromium. The answers of the API are made up here, so that the figures are the page's own: a list of
 * 1,000 tasks, and a task with 50 MB of output.
 */
import { readFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Task } from "@concierge/client";
import { buildDashboard, securityHeaders } from "@concierge/dashboard";
import type { Browser } from "playwright-core";
import { launchBrowser, openTab, signIn } from "../dashboard/browser.ts";
import type { Benchmark, Figure } from "./harness.ts";

const taskCount = 1_000;
const pageSize = 100;
const outputBytes = 50_000_000;
const watchMs = 60_000;
const pages = ["/tasks", "/tasks/task_0000", "/sessions", "/pool", "/health", "/admin"];

export const dashboard: Benchmark = {
  name: "dashboard",
  about: "first paint with 1,000 tasks, first page's size, 50 MB of output, requests of an open page",
  async run() {
    await using server = await startServer();
    const browser = await launchBrowser();
    try {
      return [
        ...(await measureList(browser, server.url)),
        ...(await measureOutput(browser, server.url)),
        ...(await measureRequests(browser, server.url)),
      ];
    } finally {
      await browser.close();
    }
  },
};

async function measureList(browser: Browser, url: string): Promise<Figure[]> {
  await using tab = await openTab(browser);
  const { page } = tab;
  await signIn(page, url, "key");
  await page.reload();
  await page.locator("tbody tr").first().waitFor();
  const [listMs, bytes] = (await page.evaluate(`[
    performance.getEntriesByName("first-contentful-paint")[0].startTime,
    performance.getEntriesByType("resource").filter(({ name }) => name.includes("/dashboard/"))
      .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)]`)) as [number, number];
  const rowsMs = (await page.evaluate("performance.now()")) as number;
  for (let shown = pageSize; shown < taskCount; shown += pageSize) {
    await page.getByRole("button", { name: "Show older tasks" }).click();
    await page.locator("tbody tr").nth(shown).waitFor();
  }
  return [
    { what: "first paint", unit: "ms", value: listMs, target: { of: "value", atMost: 1_000 } },
    {
      what: "first 100 of 1,000 tasks on the screen",
      unit: "ms",
      value: rowsMs,
      target: { of: "value", atMost: 1_000 },
    },
    {
      what: "first page, compressed",
      unit: "KB",
      value: bytes / 1_000,
      target: { of: "value", atMost: 200, firm: true },
    },
  ];
}

async function measureOutput(browser: Browser, url: string): Promise<Figure[]> {
  await using tab = await openTab(browser);
  const { page } = tab;
  await signIn(page, url, "key");
  const cdp = await page.context().newCDPSession(page);
  const heapMb = async () => {
    await cdp.send("HeapProfiler.collectGarbage");
    const { usedSize } = (await cdp.send("Runtime.getHeapUsage")) as { usedSize: number };
    return usedSize / 1_000_000;
  };
  await page.evaluate(`{ window.slow = 0; window.frames = 0; let last = performance.now();
    const frame = (now) => { window.frames++; if (now - last > 50) window.slow++; last = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame); }`);
  const before = await heapMb();
  const beganAt = Date.now();
  await page.goto(`${url}/#/tasks/task_big`);
  await page.locator(".xterm-rows").getByText("the last line").waitFor({ timeout: 300_000 });
  const tookMs = Date.now() - beganAt;
  const [writeSlow, writeFrames] = (await page.evaluate("[window.slow, window.frames]")) as [number, number];
  await page.evaluate("window.slow = 0; window.frames = 0");
  await page.locator(".xterm-screen").hover();
  for (let turn = 0; turn < 60; turn++) await page.mouse.wheel(0, turn < 30 ? -600 : 600);
  await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
  const [scrollSlow, scrollFrames] = (await page.evaluate("[window.slow, window.frames]")) as [
    number,
    number,
  ];
  return [
    { what: "50 MB of output, all received", unit: "ms", value: tookMs },
    {
      what: `frames over 50 ms while it arrives (of ${writeFrames})`,
      unit: "units",
      value: writeSlow,
    },
    { what: `frames over 50 ms while scrolling (of ${scrollFrames})`, unit: "units", value: scrollSlow },
    {
      what: "heap after 50 MB of output, MB over before",
      unit: "units",
      value: (await heapMb()) - before,
      target: { of: "value", atMost: 60, firm: true },
    },
  ];
}

async function measureRequests(browser: Browser, url: string): Promise<Figure[]> {
  const counts = await Promise.all(
    pages.map(async (path) => {
      await using tab = await openTab(browser);
      const { page } = tab;
      await signIn(page, url, "key");
      await page.goto(`${url}/#${path}`);
      await page.waitForTimeout(3_000);
      let count = 0;
      page.on("request", (request) => {
        if (request.url().includes("/v1/")) count++;
      });
      await page.waitForTimeout(watchMs);
      return { path, count };
    }),
  );
  return counts.map(({ path, count }) => ({
    what: `requests a minute of an open ${path.replace("task_0000", "{id}")}`,
    unit: "requests",
    value: count,
    target: { of: "value", atMost: 15, firm: true },
  }));
}

async function startServer() {
  const directory = await buildDashboard();
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
    const task = /^\/v1\/tasks\/([^/]+)$/.exec(pathname)?.[1];
    if (pathname === "/v1/tasks/task_big/events") return void sendOutput(response);
    if (pathname.endsWith("/events")) return void openStream(response);
    if (task) return answer(response, taskOf(task));
    if (pathname === "/v1/tasks") return answer(response, listOf(Number(searchParams.get("cursor") ?? 0)));
    const known = fixed[pathname];
    if (known) return answer(response, known);
    void sendFile(join(directory, pathname === "/" ? "index.html" : pathname), response);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose](): Promise<void> {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

function answer(response: ServerResponse, body: object): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
}

async function sendFile(file: string, response: ServerResponse): Promise<void> {
  const types: Record<string, string> = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
  };
  const body = await readFile(file).catch(() => undefined);
  if (!body) return void response.writeHead(404).end();
  const headers = { ...securityHeaders, "content-type": types[extname(file)], "content-encoding": "gzip" };
  response.writeHead(200, headers).end(gzipSync(body));
}

/** A task that is running and quiet: the stream stays open. */
function openStream(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream" }).write(": open\n\n");
}

async function sendOutput(response: ServerResponse): Promise<void> {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const line = `\x1b[32m${"0123456789 ".repeat(7)}\x1b[0m\n`;
  const text = line.repeat(Math.floor(16_000 / line.length));
  for (let sent = 0, id = 1; sent < outputBytes; sent += text.length, id++) {
    const isFlowing = response.write(message(id, text));
    if (!isFlowing) await new Promise((drained) => response.once("drain", drained));
    if (response.destroyed) return;
  }
  response.write(message(1_000_000, "the last line\n"));
}

function message(id: number, text: string): string {
  const at = new Date().toISOString();
  return `id: ${id}\ndata: ${JSON.stringify({ cursor: String(id), at, turn: 1, type: "output", stream: "stdout", text })}\n\n`;
}

function listOf(from: number) {
  const items = Array.from({ length: pageSize }, (_, index) =>
    taskOf(`task_${String(from + index).padStart(4, "0")}`),
  );
  return { items, cursor: from + pageSize < taskCount ? String(from + pageSize) : null };
}

function taskOf(id: string): Task {
  const at = new Date().toISOString();
  const isRunning = id === "task_0000" || id === "task_big";
  return {
    id,
    status: isRunning ? "running" : "succeeded",
    turn: 1,
    agent: "shell",
    sessionKey: "bench",
    keepAlive: true,
    prompt: `Task ${id}: read the code, find the bug, fix it and run the tests`,
    limits: { maxDurationMs: 300_000, inactivityMs: 60_000 },
    metadata: {},
    sandbox: { name: "sandbox-1", origin: "reused", epoch: 1 },
    createdAt: at,
    startedAt: at,
    endedAt: isRunning ? null : at,
    deadlineAt: at,
    lastActivityAt: at,
    phases: [{ turn: 1, status: "queued", at, by: "api" }],
    timings: { queuedMs: 10, provisionMs: 100, agentMs: 1_000, finalizeMs: null, stopMs: null },
    result: null,
    error: null,
    usage: { inputTokens: 0, outputTokens: 0, costUsd: 0 },
    notices: [],
  };
}

const none = { vcpuSeconds: 0, gbHours: 0, creations: 0, usd: 0 };
const fixed: Readonly<Record<string, object>> = {
  "/v1/me": { userId: "bench", keyId: "key", scopes: ["admin"], admin: true, limits: {} },
  "/v1/sessions": { items: [], cursor: null },
  "/v1/keys": { items: [], cursor: null },
  "/v1/audit": { items: [], cursor: null },
  "/v1/flags": {},
  "/v1/metrics": { window: "24h", items: [] },
  "/v1/pool": {
    total: 0,
    ready: 0,
    leased: 0,
    idle: 0,
    warm: 0,
    creating: 0,
    max: 1,
    oldestIdleMs: null,
    reuseRate: null,
  },
  "/v1/costs": {
    from: "2026-01-01",
    to: "2026-01-07",
    items: [],
    total: { turns: 0, used: none, perMessage: none, savedRatio: 0 },
    prices: [],
  },
};
