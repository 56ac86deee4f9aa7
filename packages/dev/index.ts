export { clientConfig, physicalName } from "./stack/aws.ts";
export { type LocalStack, type LocalStackOptions, startLocalStack } from "./stack/stack.ts";
export { createTables } from "./stack/tables.ts";
