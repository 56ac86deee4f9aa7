export * from "./messages.ts";
export * from "./state.ts";
