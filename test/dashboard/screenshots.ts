/** `npm run screenshots`: every page, light and dark, into docs/images. */
import { mkdir, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { createClient } from "@concierge/client";
import type { Page } from "playwright-core";
import { startConcierge } from "../testing/stack.ts";
import { launchBrowser, openTab, signIn } from "./browser.ts";

const directory = fileURLToPath(new URL("../../docs/images/", import.meta.url));

await mkdir(directory, { recursive: true });
await using concierge = await startConcierge({ reapEveryMs: 3_600_000 });
const client = createClient(concierge);
const running = await seed();
const browser = await launchBrowser();
try {
  for (const scheme of ["light", "dark"] as const) {
    await using tab = await openTab(browser, { scheme });
    const { page } = tab;
    await page.goto(`${concierge.url}/`);
    await page.getByLabel("API key").waitFor();
    await shoot(page, `sign-in-${scheme}`);
    await signIn(page, concierge.url, concierge.apiKey);
    await page
      .getByRole("link", { name: /Fix the flaky/ })
      .first()
      .waitFor();
    await shoot(page, `tasks-${scheme}`);
    await page.getByRole("button", { name: "Start a task" }).click();
    await page.getByLabel("Prompt", { exact: true }).waitFor();
    await shoot(page, `start-${scheme}`);
    await page.keyboard.press("Escape");
    await open(page, `/tasks/${running.id}`, "Phases");
    await page.getByText("launching").waitFor();
    await shoot(page, `task-${scheme}`);
    const [stopped] = (await client.list({ status: "stopped" })).items;
    await open(page, `/tasks/${stopped?.id}`, "Phases");
    await shoot(page, `stopped-${scheme}`);
    await open(page, "/sessions", "Sessions");
    await page.getByRole("article").first().waitFor();
    await shoot(page, `sessions-${scheme}`);
    await open(page, "/pool", "Pool and cost");
    await page.getByText("Cost by day").waitFor();
    await shoot(page, `pool-${scheme}`);
    await open(page, "/health", "Health");
    await page.getByText("Stop timeline").waitFor();
    await page.getByText("stop success").waitFor();
    await shoot(page, `health-${scheme}`);
    await open(page, "/admin", "Admin");
    await page.getByText("ENABLE_HEALTH_PROBE").first().waitFor();
    await page.getByRole("cell", { name: "task.stop" }).first().waitFor();
    await shoot(page, `admin-${scheme}`);
  }
  await using phone = await openTab(browser, { width: 390, height: 800, scheme: "dark" });
  await signIn(phone.page, concierge.url, concierge.apiKey);
  await phone.page
    .getByRole("link", { name: /Fix the flaky/ })
    .first()
    .waitFor();
  await shoot(phone.page, "phone-tasks-dark");
  await open(phone.page, `/tasks/${running.id}`, "Phases");
  await shoot(phone.page, "phone-task-dark");
} finally {
  await browser.close();
}
await client.stop(running.id);

async function open(page: Page, path: string, heading: string): Promise<void> {
  await page.goto(`${concierge.url}/#${path}`);
  await page.getByRole("heading", { name: heading }).first().waitFor();
}

async function shoot(page: Page, name: string): Promise<void> {
  await page.waitForLoadState("networkidle").catch(() => {});
  // Output streams in, and charts are drawn in the next frames.
  await page.waitForTimeout(900);
  const path = `${directory}${name}.png`;
  await page.screenshot({ path });
  console.log(`${name}.png ${Math.round((await stat(path)).size / 1000)} KB`);
}

/** Tasks of all kinds. The last one is still running. */
async function seed() {
  const say = (color: number, text: string) => `printf '\\033[${color}m%s\\033[0m\\n' "${text}"`;
  const run = (prompt: string, sessionKey: string, limits = {}) =>
    client.start({ prompt, sessionKey, agent: "shell", limits, metadata: { team: "platform" } });
  for (const [name, session] of [
    ["Fix the flaky checkout test", "checkout"],
    ["Upgrade eslint and fix what it finds", "web"],
  ] as const) {
    const task = await run(`# ${name}\n${say(32, "ok")}; sleep 0.4`, session);
    await client.wait(task.id);
    await client.continue(task.id, { prompt: `# ${name}\necho again; sleep 0.2` });
    await client.wait(task.id);
  }
  const failed = await run(
    `# Migrate the orders table\n${say(31, "migration failed: column exists")}; exit 3`,
    "orders",
  );
  await client.wait(failed.id);
  const late = await run(
    "# Crawl every page\nfor i in 1 2 3 4 5 6; do echo page $i; sleep 1; done",
    "crawler",
    {
      maxDurationMs: 2_500,
    },
  );
  for (const [name, session] of [
    ["Rewrite the search index", "search"],
    ["Load test the api", "web"],
  ] as const) {
    const task = await run(`# ${name}\necho working; sleep 120`, session);
    await untilOutput(task.id);
    await client.stop(task.id);
    await client.wait(task.id);
  }
  await client.wait(late.id);
  await client.keys.create({ name: "ci", scopes: ["tasks:read", "tasks:write"] });
  await client.keys.create({ name: "grafana", scopes: ["tasks:read"], userId: "ops" });
  const script = [
    "# Fix the flaky checkout test",
    say(36, "▸ reading src/checkout.test.ts"),
    say(36, "▸ running npm test"),
    ...[1, 2, 3, 4].map((n) => `sleep 0.3; ${say(32, `  ✓ checkout case ${n}`)}`),
    say(31, "  ✗ applies the coupon twice  (expected 10, got 20)"),
    say(33, "! the total is updated before the lock is taken"),
    say(36, "▸ editing src/checkout.ts"),
    "while true; do sleep 5; echo still working; done",
  ].join("\n");
  const task = await run(script, "checkout", { maxDurationMs: 600_000, inactivityMs: 120_000 });
  await untilOutput(task.id);
  return task;
}

async function untilOutput(id: string): Promise<void> {
  for await (const event of client.events(id)) if (event.type === "output") return;
}
