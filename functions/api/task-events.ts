export { createFollower, parseCursor, readEvents, readOutput } from "@concierge/core/events";
export { stream } from "hono/streaming";
export { sendEvents } from "./event-stream.ts";
