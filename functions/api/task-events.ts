export { createFollower, parseCursor, readEvents, readOutput } from "@concierge/core/events";
export { sendEvents } from "./event-stream.ts";
