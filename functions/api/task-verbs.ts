export { continueTask, start, stop } from "@concierge/core/verbs";
