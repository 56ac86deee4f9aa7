import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, chromium, type Page } from "playwright-core";

export const browserPath = "/usr/bin/chromium";
export const hasBrowser: boolean = existsSync(browserPath);

const flags = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: browserPath, args: flags });
}

export interface PageOptions {
  width?: number;
  height?: number;
  scheme?: "light" | "dark";
}

/** A tab of its own, with what went wrong in it. A CSP violation is a console error. */
export async function openTab(
  browser: Browser,
  { width = 1280, height = 860, scheme = "light" }: PageOptions = {},
) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  return {
    page,
    problems,
    async [Symbol.asyncDispose](): Promise<void> {
      await context.close();
    },
  };
}

export async function signIn(page: Page, url: string, apiKey: string): Promise<void> {
  await page.goto(`${url}/`);
  await page.getByLabel("API key").fill(apiKey);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
}

/** What axe finds that is serious or critical, one line each. */
export async function findBarriers(page: Page): Promise<string[]> {
  const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
  // Evaluated by the debugger, which the page's CSP does not concern.
  const { readFile } = await import("node:fs/promises");
  await page.evaluate(await readFile(axe, "utf8"));
  return (await page.evaluate(`axe.run().then(({ violations }) => violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => id + ": " + html.slice(0, 200) + " " + failureSummary)))`)) as string[];
}
