import { closeSync, readFileSync } from "node:fs";
import { launchConfigFd, runnerExit, variables } from "@concierge/protocol";
import { messageOf } from "./process/errors.ts";
import { parseLaunchConfig, type TurnConfig } from "./turn/config.ts";
import { type Interruption, runTurn } from "./turn/turn.ts";

process.exit(await main());

async function main(): Promise<number> {
  let config: TurnConfig;
  try {
    config = parseLaunchConfig(process.env[variables.launchConfig] ?? readHiddenConfig());
  } catch (error) {
    console.error(`concierge runner: ${messageOf(error)}`);
    return runnerExit.badConfig;
  }
  return runTurn(config, interruption());
}

/** The launch script passes the configuration here, because the agent could read the runner's environment in /proc. */
function readHiddenConfig(): string | undefined {
  try {
    const text = readFileSync(launchConfigFd, "utf8");
    // The agent would inherit it.
    closeSync(launchConfigFd);
    return text;
  } catch {
    return undefined;
  }
}

/** A signal stops the turn. So does a bug in the runner, which must not leave the agent running. */
function interruption(): Promise<Interruption> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
      process.on(signal, () => resolve({ kind: "signalled" }));
    }
    process.on("uncaughtException", (error) => resolve({ kind: "crashed", detail: messageOf(error) }));
  });
}
