import { note } from "./notes.ts";

/** Takes longer than the schedule's interval. */
export async function handler(event: unknown): Promise<void> {
  note({ at: "start", event });
  await new Promise((resolve) => setTimeout(resolve, 300));
  note({ at: "end" });
}
