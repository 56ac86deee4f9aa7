import { describeAgent } from "./scenarios.ts";

describeAgent({
  agent: "codex",
  program: "codex",
  key: "sk-stub-0123456789",
  callUsd: (100 * 2 + 7 * 10) / 1e6,
  unreachable: "inactivity_timeout",
});
