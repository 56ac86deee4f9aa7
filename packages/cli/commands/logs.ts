import { isTerminal, type Retry } from "@concierge/client";
import { connect } from "../connection/connect.ts";
import { parseWholeNumber } from "../options.ts";
import type { Program } from "../program.ts";
import { createSanitizer } from "../view/sanitize.ts";
import { printJson, printNote } from "../view/table.ts";
import { watchTask } from "../watch/watch.ts";

export function registerLogs(program: Program): void {
  program
    .command("logs")
    .description("print what the agent printed")
    .argument("<task>", "the task's id")
    .option("-f, --follow", "go on until the task ends, also over lost connections")
    .option("-t, --turn <number>", "only this turn", parseWholeNumber)
    .action(async (id, { follow, turn }, command) => {
      const { json, ...options } = command.optsWithGlobals();
      const client = await connect(options);
      const write = process.stdout.isTTY ? cleanWriter() : (text: string) => void process.stdout.write(text);
      if (!follow) {
        const output = await client.output(id, { turn });
        return json ? printJson({ output }) : write(output);
      }
      for await (const event of client.events(id, { onRetry: createRetryNote() })) {
        if (turn !== undefined && event.turn > turn) return;
        if (event.type === "output" && (turn === undefined || event.turn === turn))
          json ? printJson(event) : write(event.text);
        if (event.turn === turn && event.type === "status" && isTerminal(event.status)) return;
      }
    });

  program
    .command("watch")
    .description("show a task until it ends; the exit code says how it ended")
    .argument("<task>", "the task's id")
    .action(async (id, _, command) => {
      const { json = false, ...options } = command.optsWithGlobals();
      const client = await connect(options);
      process.exitCode = await watchTask(client, await client.get(id), { json });
    });
}

/** A terminal obeys what it shows, and what an agent prints is not trusted. */
function cleanWriter(): (text: string) => void {
  const clean = createSanitizer();
  return (text) => void process.stdout.write(clean(text));
}

/** Says once a minute that the connection is lost, not at each attempt. */
function createRetryNote(): (retry: Retry) => void {
  let saidAt = 0;
  return ({ error }) => {
    if (Date.now() - saidAt < 60_000) return;
    saidAt = Date.now();
    printNote(`concierge: ${error.detail} Connecting again.`);
  };
}
