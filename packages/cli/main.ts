import { CommanderError } from "@commander-js/extra-typings";
import { type ExitCode, exitCodes, explain } from "./errors.ts";
import { createProgram } from "./program.ts";

/** Runs a command line and returns its exit code. */
export async function main(args: string[]): Promise<number> {
  endQuietlyWithReader();
  try {
    await createProgram().parseAsync(args, { from: "user" });
    return Number(process.exitCode ?? exitCodes.done);
  } catch (error) {
    // Commander has already printed its message.
    if (error instanceof CommanderError) return isWanted(error) ? exitCodes.done : exitCodes.usage;
    return report(error, args.includes("--json"));
  }
}

/** Help or the version, asked for. Help instead of a missing command is a usage error. */
function isWanted({ code }: CommanderError): boolean {
  return code === "commander.helpDisplayed" || code === "commander.version";
}

function report(error: unknown, json: boolean): ExitCode {
  const { code, exitCode, message, next } = explain(error);
  if (json) process.stderr.write(`${JSON.stringify({ error: { code, message, next } })}\n`);
  else process.stderr.write(`concierge: ${message}\n${next ? `${next}\n` : ""}`);
  return exitCode;
}

/** `concierge logs | head` is not an error. */
function endQuietlyWithReader(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(exitCodes.done);
  });
}
