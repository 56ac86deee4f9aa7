export { beginning, type Cursor, formatCursor, parseCursor } from "./event/cursor.ts";
export { createFollower, type Follow } from "./event/follow.ts";
export { readEvents, readOutput } from "./event/read.ts";
