export { clientConfig, physicalName } from "./aws.ts";
export { type LocalStack, type LocalStackOptions, startLocalStack } from "./stack.ts";
export { createTables } from "./tables.ts";
