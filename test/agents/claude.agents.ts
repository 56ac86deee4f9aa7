import { describeAgent } from "./scenarios.ts";

describeAgent({
  agent: "claude",
  program: "claude",
  key: "sk-ant-stub-0123456789",
  callUsd: (100 * 4 + 7 * 20) / 1e6,
  unreachable: "inactivity_timeout",
});
