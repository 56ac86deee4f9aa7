import type { AgentAdapter } from "./adapter.ts";

/** The prompt is a bash script: no key, no network, and silence is all there is to know about what it does. */
export const shell: AgentAdapter = {
  start: ({ promptPath }) => ({ file: "bash", args: [promptPath], activity: () => "none" }),
};
