import type { Duplex } from "node:stream";

/** Passes bytes both ways until both sides have ended. If one side breaks, so does the other. */
export function linkStreams(one: Duplex, other: Duplex): void {
  pass(one, other);
  pass(other, one);
}

function pass(from: Duplex, to: Duplex): void {
  from.on("error", () => to.destroy());
  from.on("close", () => {
    if (!from.readableEnded || !from.writableFinished) to.destroy();
  });
  from.pipe(to);
}
