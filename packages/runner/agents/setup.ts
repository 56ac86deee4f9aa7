import { directoryIn } from "./install.ts";
import { findAgent } from "./registry.ts";

/** A shell script for a base snapshot. It installs agents where the runner looks for them, so that no turn has to. */
export function setupScript(agents: readonly string[]): string {
  const lines = agents.map((name) => {
    const adapter = findAgent(name);
    if (!adapter || !("version" in adapter.install)) throw new Error(`${name} cannot be installed`);
    const { file, args } = adapter.install.command("$directory");
    const quoted = args.map((arg) => `"${arg}"`).join(" ");
    return `directory="$HOME/${directoryIn(adapter.program, adapter.install)}" && ${file} ${quoted}`;
  });
  return lines.join(" && ");
}
