import type { AgentAdapter, AgentNeeds } from "./adapter.ts";
import { claude } from "./claude.ts";
import { codex } from "./codex.ts";
import { cursor } from "./cursor.ts";
import { shell } from "./shell.ts";

const adapters = new Map<string, AgentAdapter>(Object.entries({ claude, codex, cursor, shell }));

export function findAgent(name: string): AgentAdapter | undefined {
  return adapters.get(name);
}

export const agentNeeds = {
  claude: claude.needs,
  codex: codex.needs,
  cursor: cursor.needs,
  shell: shell.needs,
} as const satisfies Record<string, AgentNeeds>;
