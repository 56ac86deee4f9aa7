import type { AgentAdapter } from "./adapter.ts";

/** Runs the prompt as a bash script. It needs no key and no network, and has no events. */
export const shell: AgentAdapter = {
  needs: { hosts: [] },
  program: "bash",
  install: { impossible: "install bash in the base image" },
  start: ({ promptPath }) => ({ file: "bash", args: [promptPath] }),
};
