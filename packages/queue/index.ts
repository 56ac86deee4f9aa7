export { parseTimer, parseWebhookMessage, parseWorkMessage, type WebhookMessage } from "./messages.ts";
export { createTimers, createWorkQueue, requestIdOf, traceparentOf } from "./send.ts";
