/** What an agent needs from outside its sandbox. Read by whoever launches the runner, not by the runner. */
export interface AgentNeeds {
  /** Hosts it talks to. */
  hosts: readonly string[];
  /** Its key: the variable it is read from, and the header it goes in. It goes to the first host alone. */
  secret?: { name: string; header: string; scheme?: string };
  /** A variable that names another address to talk to. */
  baseUrl?: string;
}

export const agentNeeds = {
  claude: {
    hosts: ["api.anthropic.com"],
    secret: { name: "ANTHROPIC_API_KEY", header: "x-api-key" },
    baseUrl: "ANTHROPIC_BASE_URL",
  },
  codex: {
    hosts: ["api.openai.com"],
    secret: { name: "OPENAI_API_KEY", header: "authorization", scheme: "Bearer" },
    baseUrl: "OPENAI_BASE_URL",
  },
  cursor: {
    hosts: ["api2.cursor.sh", "*.cursor.sh"],
    secret: { name: "CURSOR_API_KEY", header: "authorization", scheme: "Bearer" },
  },
  shell: { hosts: [] },
} as const satisfies Record<string, AgentNeeds>;
