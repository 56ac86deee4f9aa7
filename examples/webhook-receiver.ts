/**
 * Receives Concierge's webhooks and checks their signatures (Standard Webhooks).
 * Needs CONCIERGE_URL and CONCIERGE_API_KEY, from which it gets the signing secret; PORT is optional.
 */
import { createServer, type IncomingMessage } from "node:http";
import { createClient } from "@concierge/client";
import { Webhook } from "standardwebhooks";

const {
  CONCIERGE_URL: url = "http://127.0.0.1:4000",
  CONCIERGE_API_KEY: apiKey = "",
  PORT = "0",
} = process.env;
const webhook = new Webhook(await createClient({ url, apiKey }).webhookSecret());
const bodyMaxBytes = 1024 * 1024;
/** A message can arrive twice, always with the same id. Keep the ids in a database in a real program. */
const seen = new Set<string>();

interface Message {
  type: string;
  data: { taskId: string; turn: number; status: string };
}

const server = createServer(async (request, response) => {
  const answer = (status: number) => void response.writeHead(status).end();
  const body = await readBody(request);
  if (body === undefined) return answer(413);
  const message = verify(body, request);
  if (!message) return answer(401);
  const id = String(request.headers["webhook-id"]);
  if (!seen.has(id)) {
    seen.add(id);
    console.log(`${message.type} ${message.data.taskId} turn ${message.data.turn}`);
  }
  // Answer at once and do the work later: Concierge waits ten seconds.
  return answer(204);
});

server.listen(Number(PORT), "127.0.0.1", () => {
  const address = server.address();
  if (address && typeof address === "object") console.log(`listening on http://127.0.0.1:${address.port}`);
});

/** The signature covers the exact bytes of the body, so parse it only afterwards. */
function verify(body: string, { headers }: IncomingMessage): Message | undefined {
  try {
    return webhook.verify(body, headers as Record<string, string>) as Message;
  } catch {
    return undefined;
  }
}

async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > bodyMaxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
