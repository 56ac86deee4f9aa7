import { execFile } from "node:child_process";
import { createServer } from "node:net";
import { isExposed, readProfiles } from "../connection/profiles.ts";
import { resolveConnection } from "../connection/resolve.ts";
import { type Check, type Machine, runChecks } from "../doctor/checks.ts";
import { exitCodes } from "../errors.ts";
import type { Program } from "../program.ts";
import { paint } from "../view/format.ts";
import { printJson, printLine } from "../view/table.ts";

const runMaxMs = 10_000;

export function registerDoctor(program: Program): void {
  program
    .command("doctor")
    .description("check this machine, the server and the key, and say how to fix what is wrong")
    .action(async (_, command) => {
      const options = command.optsWithGlobals();
      const connection = resolveConnection(options, process.env, await readProfiles());
      const checks: Check[] = [];
      for await (const check of runChecks(thisMachine(), connection)) {
        checks.push(check);
        if (!options.json) show(check);
      }
      if (options.json) printJson({ checks });
      if (checks.some(({ result }) => result === "fail")) process.exitCode = exitCodes.failed;
    });
}

function show({ name, result, detail, fix }: Check): void {
  const signs = {
    ok: paint("green", "ok  "),
    note: paint("dim", "note"),
    warn: paint("yellow", "warn"),
    fail: paint("red", "FAIL"),
  };
  printLine(`${signs[result]}  ${name.padEnd(11)}  ${detail}`);
  if (fix) printLine(`${" ".repeat(19)}${paint("dim", "fix:")} ${fix}`);
}

function thisMachine(): Machine {
  return {
    nodeVersion: process.versions.node,
    env: process.env,
    now: Date.now,
    fetch,
    run: (file, args) =>
      new Promise((resolve) => {
        execFile(file, args, { timeout: runMaxMs }, (error) => {
          if (!error) resolve("ok");
          else resolve(error.code === "ENOENT" ? "missing" : "failed");
        });
      }),
    isPortFree: (port) =>
      new Promise((resolve) => {
        const server = createServer();
        server.once("error", () => resolve(false));
        server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
      }),
    areProfilesExposed: () => isExposed(),
  };
}
