export type { Health, SessionName } from "@concierge/core";
export { SandboxSessionManager } from "./manager.ts";
export type {
  ISandboxSessionManager,
  SandboxSession,
  SandboxSessionManagerConfig,
  SessionOptions,
} from "./types.ts";
