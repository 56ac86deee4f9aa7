import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startAgent } from "./agent-process.ts";
import { makePipes } from "./pipes.ts";

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "concierge-agent-"));
});

afterEach(() => rmSync(directory, { recursive: true, force: true }));

async function start(script: string) {
  let text = "";
  const agent = await startAgent({
    file: "bash",
    args: ["-c", script],
    cwd: directory,
    pipes: makePipes(directory),
    env: process.env,
    pipeGraceMs: 20,
    onOutput: (_, bytes) => {
      text += bytes;
    },
    mayStart: () => true,
  });
  return { agent, text: () => text, [Symbol.dispose]: () => endGroup(agent.pid) };
}

const lines = Array.from({ length: 5000 }, (_, n) => `${n + 1}\n`).join("");

test.each([
  ["alone", "seq 1 5000"],
  ["with a background process that holds the pipes", "sleep 300 & seq 1 5000"],
])("output from before the exit of an agent %s is read when paused pipes resume", async (_, script) => {
  using started = await start(script);
  const { agent, text } = started;
  agent.pause();
  expect(await agent.exited).toMatchObject({ exitCode: 0, signal: null });
  expect(text()).toBe("");
  agent.resume();
  await agent.drained;
  expect(text()).toBe(lines);
});

test("the pipes are unlinked once the agent runs", async () => {
  using started = await start("true");
  expect(readdirSync(directory)).toEqual([]);
  await started.agent.drained;
});

test("an exit reports how long the agent ran, in whole milliseconds", async () => {
  const beforeMs = performance.now();
  using started = await start("sleep 0.1");
  const { agentMs } = await started.agent.exited;
  const maxMs = Math.ceil(performance.now() - beforeMs);
  expect(agentMs).toSatisfy(Number.isInteger);
  expect(agentMs).toBeGreaterThanOrEqual(100);
  expect(agentMs).toBeLessThanOrEqual(maxMs);
});

function endGroup(groupId: number): void {
  try {
    process.kill(-groupId, "SIGKILL");
  } catch {
    // The group has ended.
  }
}
