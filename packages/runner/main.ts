import { CONFIG_VARIABLE, parseLaunchConfig, type TurnConfig } from "./config.ts";
import { messageOf } from "./errors.ts";
import { RUNNER_EXIT } from "./protocol.ts";
import { type Interruption, runTurn } from "./turn.ts";

/*
 * Nothing here or in what is imported imports a module of Node's. An `import` reads all that a module exports, and of
 * Node 24's `node:http` that loads undici, which takes longer than Node's own start. `getBuiltinModule` does not.
 */
process.exit(await main());

async function main(): Promise<number> {
  let config: TurnConfig;
  try {
    config = parseLaunchConfig(process.env[CONFIG_VARIABLE]);
  } catch (error) {
    console.error(`concierge runner: ${messageOf(error)}`);
    return RUNNER_EXIT.badConfig;
  }
  return runTurn(config, interruption());
}

/** Whoever signals the runner stops the turn; a bug in it must not leave the agent running. */
function interruption(): Promise<Interruption> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
      process.on(signal, () => resolve({ kind: "signalled" }));
    }
    process.on("uncaughtException", (error) => resolve({ kind: "crashed", detail: messageOf(error) }));
  });
}
