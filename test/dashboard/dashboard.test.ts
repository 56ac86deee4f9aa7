import { createClient, type KeyRequest } from "@concierge/client";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startSwitchProxy } from "../client/switch-proxy.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";
import { findBarriers, hasBrowser, launchBrowser, openTab, signIn } from "./browser.ts";
import { startPrefixProxy } from "./prefix-proxy.ts";

if (!hasBrowser) {
  const line = "CHROMIUM IS MISSING: the dashboard is not tested";
  if (process.env.CI) throw new Error(line);
  console.error(line);
}

let concierge: Concierge;
let browser: Browser;
let admin: ReturnType<typeof createClient>;
beforeAll(async () => {
  if (!hasBrowser) return;
  concierge = await startConcierge({ reapEveryMs: 3_600_000 });
  admin = createClient(concierge);
  await concierge.prepareDashboard();
  browser = await launchBrowser();
});
afterAll(async () => {
  await browser?.close();
  await concierge?.[Symbol.asyncDispose]();
});

describe.skipIf(!hasBrowser)("the dashboard", { timeout: 90_000 }, () => {
  it("signs in, keeps the key for the tab only and never in a URL, and says what a wrong key means", async () => {
    await using tab = await openTab(browser);
    const { page } = tab;
    const urls: string[] = [];
    page.on("request", (request) => urls.push(request.url()));
    await page.goto(`${concierge.url}/`);
    await page.getByLabel("API key").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("Your key is no longer valid").waitFor();
    await signIn(page, concierge.url, concierge.apiKey);
    expect(await page.locator(".who").innerText()).toContain("dev");
    expect(await page.evaluate("localStorage.length")).toBe(0);
    expect(await page.evaluate("document.cookie")).toBe("");
    await page.reload();
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    const second = await page.context().newPage();
    await second.goto(`${concierge.url}/`);
    await second.getByLabel("API key").waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("API key").waitFor();
    expect(await page.evaluate("sessionStorage.length")).toBe(0);
    expect(urls.filter((url) => url.includes(concierge.apiKey))).toEqual([]);
    // The wrong key's 401 is logged by the browser itself.
    expect(tab.problems.filter((line) => !line.includes("401"))).toEqual([]);
  });

  it("starts a sample task with one click on a fresh stack, and shows its output as it arrives", async () => {
    const { key } = await newKey({ userId: "fresh" });
    await using tab = await openTab(browser);
    await signIn(tab.page, concierge.url, key);
    await tab.page.getByRole("button", { name: "Start a sample task" }).click();
    await untilTerminal(tab.page, "step 2 of 5");
    await status(tab.page, "running");
    await untilTerminal(tab.page, "This ran in a sandbox");
    await status(tab.page, "succeeded");
    expect(tab.problems).toEqual([]);
  });

  it("starts from the form, refuses what the API's schema refuses, stops with proof and continues", async () => {
    await using tab = await openTab(browser);
    const { page } = tab;
    await signIn(page, concierge.url, concierge.apiKey);
    await page.getByRole("button", { name: "Start a task" }).click();
    const form = page.getByRole("dialog");
    await form.getByLabel("Session").fill("not a key!");
    await form.getByText("Limits").click();
    await form.getByLabel("Duration (s)").fill("0.5");
    await form.getByRole("button", { name: "Start", exact: true }).click();
    await form.getByText("Prompt is required.").waitFor();
    await form.getByText("Session has characters that are not allowed.").waitFor();
    await form.getByText("Duration (s) must be at least 1000.").waitFor();

    await form.getByLabel("Prompt").fill("echo before the stop; sleep 300");
    await form.getByLabel("Session").fill("form");
    await form.getByLabel("Duration (s)").fill("200");
    await form.getByRole("button", { name: "Start", exact: true }).click();
    await untilTerminal(page, "before the stop");
    await page.getByText("Until the deadline").waitFor();
    await page.getByText("creating").waitFor();

    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Cancel" }).click();
    await status(page, "running");
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByRole("button", { name: "Stop it" }).click();
    await status(page, "stopped");
    const moments = page.getByRole("list", { name: "Stop" });
    await moments.getByText(/no process is left · \d/).waitFor();
    expect(await moments.getByRole("listitem").count()).toBe(3);
    expect(await page.getByRole("button", { name: "Stop", exact: true }).count()).toBe(0);

    await page.getByLabel("Continue with the next turn").fill("echo after the stop");
    await page.getByRole("button", { name: "Continue" }).click();
    await untilTerminal(page, "after the stop");
    await status(page, "succeeded");
    await page.getByText("turn 2").first().waitFor();
    await page.getByText("the session's own, reused").waitFor();
    expect(tab.problems).toEqual([]);
  });

  it("updates the list without a reload, and filters it", async () => {
    const { key } = await newKey({ userId: "lister" });
    const client = createClient({ url: concierge.url, apiKey: key });
    const first = await client.start({ prompt: "echo apples", sessionKey: "one", agent: "shell" });
    await client.wait(first.id);
    await using tab = await openTab(browser);
    const { page } = tab;
    await signIn(page, concierge.url, key);
    await page.getByRole("link", { name: "echo apples" }).waitFor();
    const second = await client.start({
      prompt: "echo pears; exit 1",
      sessionKey: "two",
      agent: "shell",
      metadata: { team: "fruit" },
    });
    await page.getByRole("link", { name: "echo pears; exit 1" }).waitFor();
    await client.wait(second.id);
    await page.getByRole("row").filter({ hasText: "pears" }).getByText("failed", { exact: true }).waitFor();

    const rows = page.locator("tbody tr");
    await page.getByLabel("Status").selectOption("failed");
    await expect.poll(() => rows.allInnerTexts()).toEqual([expect.stringContaining("pears")]);
    await page.getByLabel("Status").selectOption("");
    await page.getByLabel("Session").fill("one");
    await expect.poll(() => rows.allInnerTexts()).toEqual([expect.stringContaining("apples")]);
    await page.getByLabel("Session").fill("");
    await page.getByLabel("Text in prompt").fill("FRUIT");
    await expect.poll(() => rows.allInnerTexts()).toEqual([expect.stringContaining("pears")]);
    await page.getByLabel("Agent").selectOption("claude");
    await page.getByText("No task matches these filters.").waitFor();
    expect(tab.problems).toEqual([]);
  });

  it("shows every line once over a reload in the middle and a lost connection", async () => {
    await using proxy = await startSwitchProxy(concierge.url);
    const prompt = "for i in $(seq 1 40); do echo line-$i-end; sleep 0.3; done";
    const task = await admin.start({ prompt, sessionKey: "lost", agent: "shell" });
    await using tab = await openTab(browser);
    const { page } = tab;
    await signIn(page, proxy.url, concierge.apiKey);
    await page.goto(`${proxy.url}/#/tasks/${task.id}`);
    await untilTerminal(page, "line-3-end");
    await page.reload();
    await untilTerminal(page, "line-8-end");
    await proxy.down();
    await page.getByText("Connection lost").waitFor();
    await proxy.up();
    await untilTerminal(page, "line-40-end");
    await status(page, "succeeded");
    expect(await page.getByText("Connection lost").count()).toBe(0);
    const lines = (await terminalText(page)).match(/line-\d+-end/g);
    // The screen shows the last lines.
    expect(lines?.length).toBeGreaterThan(15);
    expect(lines).toEqual([...new Set(lines)]);
    expect(tab.problems.filter((line) => !/ERR_|Failed to load resource/.test(line))).toEqual([]);
  });

  it("does not show another user's task, and says so like for one that does not exist", async () => {
    const task = await admin.start({ prompt: "echo secret-of-dev", sessionKey: "private", agent: "shell" });
    await admin.wait(task.id);
    const { key } = await newKey({ userId: "stranger" });
    await using tab = await openTab(browser);
    await signIn(tab.page, concierge.url, key);
    await tab.page.goto(`${concierge.url}/#/tasks/${task.id}`);
    await tab.page.getByText("belongs to another user").waitFor();
    expect(await tab.page.locator("body").innerText()).not.toContain("secret-of-dev");
  });

  it("has no button for what a key may not do", async () => {
    const task = await admin.start({ prompt: "echo look", sessionKey: "look", agent: "shell" });
    await admin.wait(task.id);
    await using tab = await openTab(browser);
    const { page } = tab;
    const { key } = await newKey({ scopes: ["tasks:read", "sessions:read"] });
    await signIn(page, concierge.url, key);
    await page.getByRole("link", { name: "echo look" }).first().waitFor();
    expect(await buttons(page)).toEqual(["Sign out"]);
    expect(await page.getByRole("link", { name: "Admin" }).count()).toBe(0);
    await page.goto(`${concierge.url}/#/tasks/${task.id}`);
    await status(page, "succeeded");
    expect(await buttons(page)).toEqual(["Copy as curl", "Sign out"]);
    await page.goto(`${concierge.url}/#/sessions`);
    await page.getByRole("article").first().waitFor();
    expect([...new Set(await buttons(page))]).toEqual(["Check health", "Sign out"]);
    await page.goto(`${concierge.url}/#/admin`);
    await page.getByText("Your key cannot open this page").waitFor();
    expect(tab.problems).toEqual([]);
  });

  it("runs commands in a session and releases it after a confirmation", async () => {
    const task = await admin.start({ prompt: "echo x > file", sessionKey: "boxed", agent: "shell" });
    await admin.wait(task.id);
    await using tab = await openTab(browser);
    const { page } = tab;
    await signIn(page, concierge.url, concierge.apiKey);
    await page.goto(`${concierge.url}/#/sessions`);
    const card = page.getByRole("article", { name: "Session boxed" });
    await card.getByText("Run a command").click();
    await card.getByLabel("Command in boxed").fill("echo $((6*7)) from the box");
    await card.getByRole("button", { name: "Run", exact: true }).click();
    await card.getByText("42 from the box").waitFor();
    await card.getByRole("button", { name: "Check health" }).click();
    await card.getByText("The provider says: healthy.").waitFor();
    await card.getByRole("button", { name: "Extend boxed" }).click();
    await page.getByRole("button", { name: "Keep it" }).click();
    await card.getByText("Kept for another hour.").waitFor();
    await card.getByRole("button", { name: "Release boxed" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Release" }).click();
    await expect
      .poll(async () => (await admin.sessions.list()).items.map((one) => one.key))
      .not.toContain("boxed");
    expect(tab.problems).toEqual([]);
  });

  it("changes flags and limits, creates and revokes keys, and reaps after a dry run", async () => {
    await using tab = await openTab(browser);
    const { page } = tab;
    await signIn(page, concierge.url, concierge.apiKey);
    await page.goto(`${concierge.url}/#/admin`);
    await page.getByLabel("ENABLE_HEALTH_PROBE", { exact: true }).fill("40%");
    await page.getByRole("button", { name: "Change ENABLE_HEALTH_PROBE" }).click();
    await page.getByRole("button", { name: "Change it" }).click();
    await expect.poll(async () => (await admin.flags.get()).ENABLE_HEALTH_PROBE).toBe("40%");
    await admin.flags.set({ ENABLE_HEALTH_PROBE: true });

    await page.getByLabel("User", { exact: true }).fill("limited");
    await page.getByRole("button", { name: "Show limits" }).click();
    await page.getByLabel("maxConcurrentTasks", { exact: true }).fill("7");
    await page.getByRole("button", { name: "Change maxConcurrentTasks" }).click();
    await page.getByRole("button", { name: "Change it" }).click();
    await expect.poll(async () => (await admin.users.limits("limited")).maxConcurrentTasks).toBe(7);

    await page.getByLabel("Name of the new key").fill("from-the-page");
    await page.getByRole("button", { name: "Create a key" }).click();
    await page.getByText("The new key, shown only now").waitFor();
    await page.getByRole("button", { name: "Revoke from-the-page" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Revoke" }).click();
    await expect
      .poll(async () => (await admin.keys.list()).items.map(({ name }) => name))
      .not.toContain("from-the-page");

    expect(await page.getByRole("button", { name: "Run the pass" }).count()).toBe(0);
    await page.getByRole("button", { name: "Show what a pass would do" }).click();
    await page.getByText("A pass would do this").waitFor();
    await page.getByRole("button", { name: "Run the pass" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Run the pass" }).click();
    await page.getByText("The pass did this").waitFor();
    await page.reload();
    await page.getByRole("cell", { name: "limits.change" }).first().waitFor();
    expect(tab.problems).toEqual([]);
  });

  it("keeps HTML, escape sequences and links harmless text", async () => {
    const html = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>";
    const osc =
      "\\033]0;owned\\007\\033]8;;javascript:alert(1)\\007click me\\033]8;;\\007\\033]52;c;b3duZWQ=\\007";
    const task = await admin.start({
      prompt: `printf '%s\\n' "${html}"; printf '${osc}\\n'; echo javascript:alert'(1)' the-end`,
      sessionKey: "hostile",
      agent: "shell",
      metadata: { "<b>bold</b>": html },
    });
    await admin.wait(task.id);
    await using tab = await openTab(browser);
    const { page } = tab;
    const dialogs: string[] = [];
    page.on("dialog", (dialog) => {
      dialogs.push(dialog.message());
      void dialog.dismiss();
    });
    const popups: Page[] = [];
    page.on("popup", (popup) => popups.push(popup));
    await signIn(page, concierge.url, concierge.apiKey);
    await page.getByRole("link", { name: "<img src=x" }).click();
    await untilTerminal(page, "the-end");
    expect(await terminalText(page)).toContain("<img src=x onerror=");
    await page.getByText("Output as text").click();
    await page.locator(".as-text pre").getByText("click me").waitFor();
    const text = await page.locator(".as-text pre").innerText();
    for (const hidden of ["\u001b", "\u0007", "b3duZWQ"]) expect(text).not.toContain(hidden);
    expect(await page.locator("aside").innerText()).toContain("<b>bold</b>");
    expect(await page.locator("main img, main b, #app script, main a[href^=javascript]").count()).toBe(0);
    const box = await page.locator(".xterm-rows").getByText("click me").first().boundingBox();
    if (!box) throw new Error("the link is not on the screen");
    await page.mouse.click(box.x + 10, box.y + box.height / 2);
    expect(await page.title()).toBe("Tasks · Concierge");
    expect(dialogs).toEqual([]);
    expect(popups).toEqual([]);
    expect(tab.problems).toEqual([]);
  });

  it.each([
    { width: 1280, height: 860, scheme: "light" },
    { width: 390, height: 800, scheme: "dark" },
  ] as const)(
    "has no serious barrier, error or sideways scrolling on any page ($width px, $scheme)",
    async (look) => {
      const task = await admin.start({ prompt: "echo hi; exit 2", sessionKey: "axe", agent: "shell" });
      await admin.wait(task.id);
      await using tab = await openTab(browser, look);
      const { page } = tab;
      await page.goto(`${concierge.url}/`);
      await page.getByLabel("API key").waitFor();
      const found: Record<string, string[]> = { signIn: await findBarriers(page) };
      await signIn(page, concierge.url, concierge.apiKey);
      const pages = {
        "/tasks": "Duration",
        [`/tasks/${task.id}`]: "Output",
        "/sessions": "Sandbox",
        "/pool": "Cost by day",
        "/health": "Stop timeline",
        "/admin": "Audit log",
      };
      const tooWide: string[] = [];
      for (const [path, text] of Object.entries(pages)) {
        await page.goto(`${concierge.url}/#${path}`);
        await page.getByText(text).first().waitFor();
        await page.waitForLoadState("networkidle").catch(() => {});
        found[path] = await findBarriers(page);
        if (await page.evaluate("document.documentElement.scrollWidth > innerWidth")) tooWide.push(path);
      }
      await page.goto(`${concierge.url}/#/tasks`);
      await page.getByRole("button", { name: "Start a task" }).click();
      await page.getByRole("dialog").waitFor();
      found.start = await findBarriers(page);
      expect(Object.entries(found).filter(([, lines]) => lines.length > 0)).toEqual([]);
      expect(tooWide).toEqual([]);
      expect(tab.problems).toEqual([]);
    },
  );

  it("can be used with the keyboard alone", async () => {
    await using tab = await openTab(browser);
    const { page } = tab;
    await page.goto(`${concierge.url}/`);
    await page.keyboard.press("Tab");
    await page.keyboard.type(concierge.apiKey);
    await page.keyboard.press("Enter");
    const button = page.getByRole("button", { name: "Start a task" });
    await button.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.type("echo typed");
    await expect.poll(() => page.getByRole("button", { name: "Start", exact: true }).isEnabled()).toBe(true);
    for (let i = 0; i < 12 && !(await isFocused(page, "Start")); i++) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await untilTerminal(page, "typed");
    expect(tab.problems).toEqual([]);
  });

  it("works behind a path prefix", async () => {
    await using proxy = await startPrefixProxy(concierge.url, "/tools/concierge");
    await using tab = await openTab(browser);
    await signIn(tab.page, `${proxy.url}/tools/concierge`, concierge.apiKey);
    await tab.page.goto(`${proxy.url}/tools/concierge/#/health`);
    await tab.page.getByText("Stop timeline").waitFor();
    expect(tab.problems).toEqual([]);
  });

  it("is served with a policy that allows only its own scripts, and the api does not know it", async () => {
    const response = await fetch(`${concierge.url}/`);
    expect(response.headers.get("content-security-policy")).toContain(
      "default-src 'none'; script-src 'self'; ",
    );
    expect(response.headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
    expect(await response.text()).not.toMatch(/<script(?![^>]*\ssrc="\.\/)|<style|https?:/);
    expect((await fetch(`${concierge.url}/dashboard/..%2f..%2fpackage.json`)).status).toBe(404);
    expect((await fetch(`${concierge.url}/`, { method: "POST" })).status).toBe(404);
  });
});

function newKey(request: KeyRequest) {
  return admin.keys.create({
    scopes: ["tasks:read", "tasks:write", "sessions:read", "sessions:write"],
    ...request,
  });
}

/** The rows on the screen. */
async function terminalText(page: Page): Promise<string> {
  return (await page.locator(".xterm-rows").innerText()).replaceAll("\u00a0", " ");
}

async function untilTerminal(page: Page, text: string): Promise<void> {
  await page.locator(".xterm-rows").waitFor();
  await expect.poll(() => terminalText(page), { timeout: 30_000 }).toContain(text);
}

async function status(page: Page, text: string): Promise<void> {
  await page.locator(".head .status").getByText(text, { exact: true }).waitFor();
}

async function buttons(page: Page): Promise<string[]> {
  const texts = (await page.getByRole("button").allInnerTexts()).map((text) => text.trim());
  return texts.filter((text) => text !== "Skip to content").sort();
}

async function isFocused(page: Page, text: string): Promise<boolean> {
  return (await page.evaluate("document.activeElement?.textContent ?? ''")) === text;
}
