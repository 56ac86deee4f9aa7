export { createDynamoStore } from "./dynamo.ts";
