export { createDynamoStore } from "./dynamo.ts";
export { createMemoryStore } from "./memory.ts";
