import type { AgentAdapter } from "./adapter.ts";
import { shell } from "./shell.ts";

const adapters = new Map<string, AgentAdapter>([["shell", shell]]);

export function findAgent(name: string): AgentAdapter | undefined {
  return adapters.get(name);
}
