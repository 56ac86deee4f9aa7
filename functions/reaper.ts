import { reapTasks } from "@concierge/core";
import { composeDeps } from "./compose.ts";

const deps = composeDeps();

export async function handler(): Promise<{ requeued: number }> {
  return await reapTasks(deps);
}
