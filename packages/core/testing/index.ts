export { createMemoryProvider, type MemoryProcess, type MemoryWorld } from "./memory-provider.ts";
export { aTask } from "./task.ts";
