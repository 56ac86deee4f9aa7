import type { AgentAdapter } from "./adapter.ts";

/** The prompt is a bash script: no key, no network, and silence is all there is to know about what it does. */
export const shell: AgentAdapter = {
  needs: { hosts: [] },
  program: "bash",
  install: { impossible: "every one has it" },
  start: ({ promptPath }) => ({ file: "bash", args: [promptPath] }),
};
