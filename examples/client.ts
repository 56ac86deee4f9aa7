/**
 * Runs a task and prints its output as it comes, then gives it a second prompt.
 * Needs CONCIERGE_URL and CONCIERGE_API_KEY.
 */
import { ConciergeError, createClient } from "@concierge/client";

const { CONCIERGE_URL: url = "http://127.0.0.1:4000", CONCIERGE_API_KEY: apiKey = "" } = process.env;
const concierge = createClient({ url, apiKey });

const { id } = await concierge.start({
  prompt: "for i in 1 2 3; do echo step $i; sleep 0.3; done",
  agent: "shell",
  sessionKey: "client-example",
});

// Goes on over dropped connections and ends with the task.
for await (const event of concierge.events(id)) {
  if (event.type === "status") console.log(`[${event.status}]`);
  if (event.type === "output") process.stdout.write(event.text);
}

await concierge.continue(id, { prompt: "echo and on" });
const { status, sandbox, result } = await concierge.wait(id);
console.log(`${status} in a ${sandbox?.origin} sandbox: ${result?.text.trim()}`);

try {
  await concierge.get("task_of_somebody_else");
} catch (error) {
  if (!(error instanceof ConciergeError)) throw error;
  console.log(`${error.status} ${error.code}: ${error.detail}`);
}
