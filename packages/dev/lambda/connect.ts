/**
 * The child's side of `processes/child.ts`. The parent sends one message at the start; the child sends one when it is
 * ready. The child exits when the channel closes, so it does not outlive its parent.
 */
import { once } from "node:events";

const closeTimeoutMs = 10_000;

/** Waits for the parent's message. `close` runs before exit, on SIGTERM or when the parent is gone. */
export async function connect<Init>(close: () => Promise<void> | void = () => {}): Promise<Init> {
  const end = async () => {
    setTimeout(() => process.exit(1), closeTimeoutMs).unref();
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
