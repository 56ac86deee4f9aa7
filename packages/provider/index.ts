export { createMemoryProvider, type MemoryProcess, type MemoryWorld } from "./memory.ts";
export { createVercelProvider, type ProviderOptions } from "./vercel.ts";
