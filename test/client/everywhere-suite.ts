/** What the client must do in every runtime. Bundled and run in Node, in a browser and in an edge runtime. */
import { ConciergeError, createClient } from "@concierge/client";

export interface SuiteOptions {
  /** The api, the api behind a proxy that cuts connections, and behind one that drops answers to starts. */
  url: string;
  cutUrl: string;
  dropUrl: string;
  apiKey: string;
  sessionKey: string;
}

export interface SuiteResult {
  text: string;
  isOrdered: boolean;
  lastStatus: string | undefined;
  startedIds: string[];
  id: string;
  output: string;
  errorCode: string | undefined;
  stopped: string;
  retries: number;
}

export async function runSuite(options: SuiteOptions): Promise<SuiteResult> {
  const { url, cutUrl, dropUrl, apiKey, sessionKey } = options;
  const direct = createClient({ url, apiKey });
  let retries = 0;
  const dropped = createClient({
    url: dropUrl,
    apiKey,
    onRetry: () => {
      retries += 1;
    },
  });

  const prompt = "for i in $(seq 30); do echo line $i; sleep 0.1; done";
  const { id } = await dropped.start({ prompt, agent: "shell", sessionKey });
  const { items } = await direct.list({ sessionKey });

  const cursors: string[] = [];
  let text = "";
  let lastStatus: string | undefined;
  for await (const event of createClient({ url: cutUrl, apiKey }).events(id)) {
    cursors.push(event.cursor);
    if (event.type === "output") text += event.text;
    if (event.type === "status") lastStatus = event.status;
  }
  const output = await direct.output(id);
  const error = await direct.get("task_none").catch((caught: unknown) => caught);
  await direct.continue(id, { prompt: "sleep 600" });
  await direct.stop(id);
  return {
    text,
    isOrdered: new Set(cursors).size === cursors.length,
    lastStatus,
    startedIds: items.map((task) => task.id),
    id,
    output,
    errorCode: error instanceof ConciergeError ? error.code : undefined,
    stopped: (await direct.wait(id)).status,
    retries,
  };
}
