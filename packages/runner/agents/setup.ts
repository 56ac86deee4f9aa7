import { directoryIn } from "../install.ts";
import { findAgent } from "./index.ts";

/**
 * A shell script that brings agents into a sandbox, each to where its runner looks for it: for a snapshot that has them
 * all, so that no turn installs any.
 */
export function setupScript(agents: readonly string[]): string {
  const lines = agents.map((name) => {
    const adapter = findAgent(name);
    if (!adapter || !("version" in adapter.install)) throw new Error(`${name} can not be installed`);
    const { file, args } = adapter.install.command("$directory");
    const words = args.map((word) => `"${word}"`).join(" ");
    return `directory="$HOME/${directoryIn(adapter.program, adapter.install)}" && ${file} ${words}`;
  });
  return lines.join(" && ");
}
