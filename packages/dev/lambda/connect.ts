/**
 * The child's side of `processes/child.ts`. The parent sends one message at the start; the child sends one when it is
 * ready. The child exits when the channel closes, so it does not outlive its parent.
 */
import { once } from "node:events";

/**
 * Where the engines and the functions' processes listen. Local sandboxes may reach 127.0.0.1, but no other loopback
 * address in any configuration. Other systems than Linux, which have no local sandboxes, know only 127.0.0.1.
 */
export const ownHost = process.platform === "linux" ? "127.0.0.2" : "127.0.0.1";

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
