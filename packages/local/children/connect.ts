/**
 * The child's end of `child.ts`: the parent sends one message to begin with, the child answers one when it
 * can be used. A child never outlives its parent: it ends when the channel between them closes.
 */
import { once } from "node:events";

const CLOSE_WITHIN_MS = 10_000;

/** Waits for the parent's first message. `close` tidies up when the parent asks to end or is gone. */
export async function connect<Init>(close: () => Promise<void> | void = () => {}): Promise<Init> {
  const end = async () => {
    setTimeout(() => process.exit(1), CLOSE_WITHIN_MS).unref();
    try {
      await close();
    } finally {
      process.exit();
    }
  };
  process.once("disconnect", end);
  process.once("SIGTERM", end);
  const [init] = (await once(process, "message")) as [Init];
  return init;
}

export function ready(port: number): void {
  process.send?.({ port });
}
