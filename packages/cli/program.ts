import { Command } from "@commander-js/extra-typings";
import { registerAdmin } from "./commands/admin.ts";
import { registerCompletion } from "./commands/completion.ts";
import { registerDev } from "./commands/dev.ts";
import { registerDoctor } from "./commands/doctor.ts";
import { registerLogin } from "./commands/login.ts";
import { registerLogs } from "./commands/logs.ts";
import { registerMcp } from "./commands/mcp.ts";
import { registerPool } from "./commands/pool.ts";
import { registerSessions } from "./commands/sessions.ts";
import { registerTasks } from "./commands/tasks.ts";
import manifest from "./package.json" with { type: "json" };

export type Program = ReturnType<typeof createRoot>;

const epilogue = `
Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 refused.

Examples:
  concierge start "echo hello" --agent shell --watch
  concierge logs -f task_…
  concierge exec default -- ls -la
`;

export function createProgram(): Program {
  const program = createRoot();
  registerTasks(program);
  registerLogs(program);
  registerSessions(program);
  registerPool(program);
  registerAdmin(program);
  registerLogin(program);
  registerDoctor(program);
  registerDev(program);
  registerMcp(program);
  registerCompletion(program);
  return program;
}

function createRoot() {
  return new Command("concierge")
    .description("Coding agents in sandboxes: start, watch, stop.")
    .version(manifest.version)
    .option("--url <url>", "the server (CONCIERGE_URL)")
    .option("--key <key>", "the API key (CONCIERGE_API_KEY)")
    .option("--profile <name>", "a URL and key stored by `concierge login`")
    .option("--json", "print JSON")
    .addHelpText("after", epilogue)
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError(
      "Run `concierge --help` for the commands, or add --help to a command for its options.",
    )
    .exitOverride();
}
