/** The live view in a real terminal. Needs tmux. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Concierge, startConcierge } from "../testing/stack.ts";
import { cli } from "./run-cli.ts";
import { startSwitchProxy } from "./switch-proxy.ts";
import { hasTmux, openTerminal } from "./tmux.ts";

const patience = { timeout: 25_000, interval: 100 };

describe.runIf(hasTmux("test/client/terminal.test.ts"))("on a terminal", () => {
  let concierge: Concierge;
  let config: string;
  beforeAll(async () => {
    config = await mkdtemp(join(tmpdir(), "concierge-config-"));
    concierge = await startConcierge({ reapEveryMs: 3_600_000 });
  });
  afterAll(async () => {
    await concierge[Symbol.asyncDispose]();
    await rm(config, { recursive: true, force: true });
  });

  const open = (args: string[], env: Record<string, string> = {}) =>
    openTerminal([process.execPath, cli, ...args], {
      CONCIERGE_URL: concierge.url,
      CONCIERGE_API_KEY: concierge.apiKey,
      XDG_CONFIG_HOME: config,
      ...env,
    });
  const watch = (prompt: string, session: string, env = {}) =>
    open(["start", prompt, "--session", session, "--watch"], env);
  type Terminal = Awaited<ReturnType<typeof open>>;
  const shows = async ({ screen }: Terminal, text: string | RegExp) =>
    await expect.poll(screen, patience).toMatch(text);
  const idOn = async ({ screen }: Terminal) => /task_\w+/.exec(await screen())?.[0] ?? "";
  const statusOf = async (id: string) => (await concierge.client.get(id)).status;

  it("a watched task shows its phases with durations, its output in colour and its cost", async () => {
    const prompt = String.raw`printf '\033[31mred\033[0m\n'; printf '\033]0;evil\007'; sleep 2; printf 'the end'`;
    await using terminal = await watch(prompt, "live");
    await shows(terminal, /running \d+\.\d s · Ctrl-C to stop or leave/);
    await shows(terminal, "[exit 0]");
    const screen = await terminal.screen();
    expect(screen).toMatch(
      /^task_\w+ shell, session live, turn 1\n✓ queued +\d+\.\d s\n✓ provisioning +\d+\.\d s\nred\nthe end\n✓ running +\d+\.\d s\n✓ succeeded after \d+\.\d s, \$0\.00\n\[exit 0]$/,
    );
    expect(await terminal.colours()).toContain("[31m");
    expect(await terminal.title()).not.toContain("evil");
  });

  it("a resized terminal shows one progress line that fits", async () => {
    await using terminal = await watch("echo before; sleep 6; echo after", "resized");
    await shows(terminal, /running \d+\.\d s · Ctrl-C/);
    await terminal.resize(40, 20);
    await shows(terminal, /running [3-9]\.\d s/);
    const lines = (await terminal.screen()).split("\n");
    expect(lines.filter((line) => /running \d/.test(line) && !line.startsWith("✓"))).toHaveLength(1);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(40);
    await terminal.resize(120, 40);
    await shows(terminal, "[exit 0]");
    const screen = await terminal.screen();
    expect(screen).toContain("before\nafter\n✓ running");
    expect(screen).not.toMatch(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/);
  });

  it("Ctrl-C and Enter stop the task", async () => {
    await using terminal = await watch("sleep 600", "stopped");
    await shows(terminal, "running");
    await terminal.press("C-c");
    await shows(terminal, "Stop the task");
    const id = await idOn(terminal);
    expect(await statusOf(id)).toBe("running");
    await terminal.press("Enter");
    await shows(terminal, /✗ stopped after .*\n\[exit 1]/);
    expect(await statusOf(id)).toBe("stopped");
  });

  it("Ctrl-C and `leave` leave it running", async () => {
    await using terminal = await watch("sleep 600", "left");
    await shows(terminal, "running");
    await terminal.press("C-c");
    await shows(terminal, "Leave it running");
    await terminal.press("Down", "Enter");
    await shows(terminal, "[exit 0]");
    const id = await idOn(terminal);
    expect(await terminal.screen()).toContain(`concierge watch ${id}`);
    expect(await statusOf(id)).toBe("running");
    await concierge.client.stop(id);
  });

  it("a second Ctrl-C leaves it running", async () => {
    await using terminal = await watch("sleep 600", "left-twice");
    await shows(terminal, "running");
    await terminal.press("C-c");
    await shows(terminal, "Leave it running");
    await terminal.press("C-c");
    await shows(terminal, "[exit 0]");
    const id = await idOn(terminal);
    expect(await statusOf(id)).toBe("running");
    await concierge.client.stop(id);
  });

  it("Ctrl-C and `keep watching` lose no output", async () => {
    await using terminal = await watch("for i in $(seq 12); do echo line $i; sleep 0.3; done", "kept");
    await shows(terminal, "line 2");
    await terminal.press("C-c");
    await shows(terminal, "Keep watching");
    await terminal.press("Down", "Down", "Enter");
    await shows(terminal, "[exit 0]");
    const lines = (await terminal.screen()).split("\n").filter((line) => line.startsWith("line "));
    expect(lines).toEqual(Array.from({ length: 12 }, (_, i) => `line ${i + 1}`));
  });

  it("a task that ends takes the question back", async () => {
    await using terminal = await watch("sleep 3; echo over", "ended");
    await shows(terminal, "running");
    await terminal.press("C-c");
    await shows(terminal, "Stop the task");
    await shows(terminal, /over\n✓ running[^\n]*\n✓ succeeded[^\n]*\n\[exit 0]/);
  });

  it("a lost connection is shown and the view goes on when it is back", async () => {
    await using proxy = await startSwitchProxy(concierge.url);
    await using terminal = await watch("for i in $(seq 20); do echo line $i; sleep 0.3; done", "lost", {
      CONCIERGE_URL: proxy.url,
    });
    await shows(terminal, "line 2");
    await proxy.down();
    await shows(terminal, "Connecting again");
    await proxy.up();
    await shows(terminal, "[exit 0]");
    const lines = (await terminal.screen()).split("\n").filter((line) => line.startsWith("line "));
    expect(lines).toEqual(Array.from({ length: 20 }, (_, i) => `line ${i + 1}`));
  });

  it("login asks for the URL and the key and does not show the key", async () => {
    await using terminal = await open(["login"], { CONCIERGE_URL: "", CONCIERGE_API_KEY: "" });
    await shows(terminal, "URL of the server");
    // Replaces the suggestion.
    await terminal.press("C-u", concierge.url, "Enter");
    await shows(terminal, "API key");
    await terminal.press("-l", concierge.apiKey);
    await terminal.press("Enter");
    await shows(terminal, "[exit 0]");
    expect(await terminal.screen()).not.toContain(concierge.apiKey);
    const stored = JSON.parse(await readFile(join(config, "concierge/profiles.json"), "utf8"));
    expect(stored).toEqual({ default: { url: concierge.url, key: concierge.apiKey } });
  });
});
