import { connectionOf } from "../connection/connect.ts";
import type { Program } from "../program.ts";

export function registerMcp(program: Program): void {
  program
    .command("mcp")
    .description("serve Concierge's tools to an MCP client over stdin and stdout")
    .action(async (_, command) => {
      const connection = await connectionOf(command.optsWithGlobals());
      // Loaded here: no other command needs the SDK.
      const { bridge } = await import("../mcp/bridge.ts");
      await bridge(connection);
    });
}
