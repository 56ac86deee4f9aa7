import { existsSync } from "node:fs";
import { CommandError, exitCodes } from "../errors.ts";
import type { Program } from "../program.ts";

/** Only a checkout has it: the installed command is for servers that run elsewhere. */
const stack = new URL("../../dev/cli.ts", import.meta.url);

export function registerDev(program: Program): void {
  program
    .command("dev")
    .description("run Concierge on this machine, from a checkout")
    .option("--port <n>", "port on 127.0.0.1; 0 picks a free one (default 4000)")
    .option("--data-dir <dir>", "keeps tasks, sandboxes and keys between runs (default .concierge/)")
    .option("--reap-every <ms>", "time between reaper passes (default 60000)")
    .option("--api-processes <n>", "API processes behind the port (default 1)")
    .option("--bundled", "run the bundles that are deployed instead of the sources")
    .option("--json-logs", "print the log entries as JSON lines")
    .argument("[options...]", "the same options as `npm run dev`, after `--`")
    .action(async (rest, { port, dataDir, reapEvery, apiProcesses, bundled, jsonLogs }, command) => {
      if (!existsSync(stack)) throw notInstalled();
      const { json } = command.optsWithGlobals();
      const given = { port, "data-dir": dataDir, "reap-every": reapEvery, "api-processes": apiProcesses };
      const args = [
        ...Object.entries(given).flatMap(([name, value]) =>
          value === undefined ? [] : [`--${name}=${value}`],
        ),
        ...Object.entries({ bundled, "json-logs": jsonLogs, json }).flatMap(([name, on]) =>
          on ? [`--${name}`] : [],
        ),
        ...rest,
      ];
      // In this process, so that a signal reaches the stack and not only its parent. It exits by itself.
      const { main } = (await import(stack.href)) as { main(args: string[]): Promise<void> };
      await main(args);
    });
}

function notInstalled(): CommandError {
  const next = "Clone the repository and run `npm ci && npx concierge dev` in it.";
  return new CommandError("The embedded stack is not part of the installed command.", exitCodes.failed, next);
}
