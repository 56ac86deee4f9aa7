export type { AgentNeeds } from "./agents/adapter.ts";
export { agentNeeds } from "./agents/registry.ts";
export { setupScript } from "./agents/setup.ts";
