import type { LaunchDeps } from "@concierge/core";

const nothing = { hosts: [], env: {}, secrets: [], missing: [] };

/** For tests that only run the shell: no agent needs anything. */
export const noAgents: LaunchDeps["agents"] = {
  claude: nothing,
  codex: nothing,
  cursor: nothing,
  shell: nothing,
};
