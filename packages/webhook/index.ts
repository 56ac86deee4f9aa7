export { createWebhooks } from "./send.ts";
