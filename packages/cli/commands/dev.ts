import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { CommandError, type ExitCode, exitCodes } from "../errors.ts";
import type { Program } from "../program.ts";

const starter = fileURLToPath(new URL("../../dev/bin/concierge-dev.mjs", import.meta.url));

export function registerDev(program: Program): void {
  program
    .command("dev")
    .description("run Concierge on this machine, from a checkout: concierge dev -- --port 0")
    .argument("[options...]", "options of `npm run dev`, after `--`")
    .action(async (args, _, command) => {
      if (!existsSync(starter)) {
        const next = "Clone the repository and run `npm ci && npm run dev` in it.";
        throw new CommandError(
          "The embedded stack is not part of the installed command.",
          exitCodes.failed,
          next,
        );
      }
      const { json } = command.optsWithGlobals();
      const child = spawn(process.execPath, [starter, ...(json ? ["--json"] : []), ...args], {
        stdio: "inherit",
      });
      // The terminal sends Ctrl-C to both. The child ends in order, and this process ends with it.
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
        process.on(signal, () => void (signal !== "SIGINT" && child.kill(signal)));
      const [code] = (await once(child, "exit")) as [number | null];
      process.exitCode = (code ?? exitCodes.failed) as ExitCode;
    });
}
