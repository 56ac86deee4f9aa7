import { runnerExit } from "@concierge/protocol";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { FakeConcierge } from "../testing/concierge.ts";
import { type Bundle, bundleRunner, Turn, until } from "../testing/runner.ts";
import { parseLaunchConfig } from "./config.ts";
import { type Interruption, runTurn } from "./turn.ts";

let bundle: Bundle;

beforeAll(async () => {
  bundle = await bundleRunner();
});

afterAll(() => bundle[Symbol.dispose]());

test("a runner that crashes kills the agent and reports the reason with secrets masked", async () => {
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  await using concierge = await FakeConcierge.start();
  const env = { KEY: "s3cr3t-value-42" };
  await using turn = new Turn(bundle, concierge, "echo hello; exec sleep 300", { env });
  let interrupt: (interruption: Interruption) => void = () => {};
  const interrupted = new Promise<Interruption>((resolve) => {
    interrupt = resolve;
  });
  const exitCode = runTurn(parseLaunchConfig(JSON.stringify(turn.config)), interrupted);
  await until("the agent runs", () => concierge.text("stdout") === "hello\n");
  interrupt({ kind: "crashed", detail: `no ${env.KEY} for ${turn.config.token}` });
  expect(await exitCode).toBe(runnerExit.runnerError);
  expect(turn.processes()).toEqual([]);
  expect(concierge.end).toMatchObject({ reason: "runner_error", lastSeq: 1, detail: "no *** for ***" });
  expect(log).toHaveBeenCalledWith("concierge runner: no *** for ***");
});
