export * from "./launch.ts";
export * from "./limits.ts";
export * from "./messages.ts";
export * from "./sandbox.ts";
