/**
 * A chat bot in the manner of a Slack slash command. Each channel has its own session, so the agent keeps its files:
 *
 *   /agent start fix the failing test
 *   /agent stop
 *
 * Needs CONCIERGE_URL, CONCIERGE_API_KEY and SLACK_SIGNING_SECRET; PORT is optional.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import { ConciergeError, createClient, isTerminal } from "@concierge/client";

const {
  CONCIERGE_URL: url = "http://127.0.0.1:4000",
  CONCIERGE_API_KEY: apiKey = "",
  SLACK_SIGNING_SECRET: secret = "",
  PORT = "0",
} = process.env;
if (!secret) throw new Error("set SLACK_SIGNING_SECRET");
const concierge = createClient({ url, apiKey });
const signatureMaxAgeSeconds = 300;

interface SlashCommand {
  text: string;
  channel: string;
  /** Where later messages go. */
  replyTo: string;
}

const server = createServer(async (request, response) => {
  const body = await readBody(request);
  if (!isSigned(request, body)) return void response.writeHead(401).end();
  const form = new URLSearchParams(body);
  const reply = await handle({
    text: form.get("text") ?? "",
    channel: form.get("channel_id") ?? "",
    replyTo: form.get("response_url") ?? "",
  });
  return void response
    .writeHead(200, { "content-type": "application/json" })
    .end(JSON.stringify({ text: reply }));
});

server.listen(Number(PORT), "127.0.0.1", () => {
  const address = server.address();
  if (address && typeof address === "object") console.log(`listening on http://127.0.0.1:${address.port}`);
});

async function handle(command: SlashCommand): Promise<string> {
  const [verb, ...words] = command.text.trim().split(/\s+/);
  try {
    if (verb === "start" && words.length > 0) return await start(command, words.join(" "));
    if (verb === "stop") return await stop(command);
    return "Say `start <what to do>` or `stop`.";
  } catch (error) {
    if (!(error instanceof ConciergeError)) throw error;
    return error.code === "session_busy" ? "The agent is busy here. Say `stop` first." : error.detail;
  }
}

async function start({ channel, replyTo }: SlashCommand, prompt: string): Promise<string> {
  const { id } = await concierge.start({ prompt, sessionKey: channel, metadata: { channel } });
  // Slack wants an answer within three seconds. The result follows when the task has ended.
  void tellEnd(id, replyTo).catch((error) => console.error(error));
  return `Started ${id}.`;
}

async function tellEnd(id: string, replyTo: string): Promise<void> {
  const { status, result, error } = await concierge.wait(id);
  const text = `${id} ${status}: ${error?.detail ?? result?.text ?? ""}`;
  await fetch(replyTo, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ text }),
  });
}

async function stop({ channel }: SlashCommand): Promise<string> {
  const { items } = await concierge.list({ sessionKey: channel, limit: 1 });
  const [task] = items;
  if (!task || isTerminal(task.status)) return "Nothing is running here.";
  const { status } = await concierge.stop(task.id);
  return isTerminal(status) ? `${task.id} ${status}.` : `${task.id} is stopping.`;
}

/** https://api.slack.com/authentication/verifying-requests-from-slack */
function isSigned({ headers }: IncomingMessage, body: string): boolean {
  const timestamp = String(headers["x-slack-request-timestamp"]);
  const ageSeconds = Math.abs(Date.now() / 1000 - Number(timestamp));
  if (!(ageSeconds < signatureMaxAgeSeconds)) return false;
  const wanted = `v0=${createHmac("sha256", secret).update(`v0:${timestamp}:${body}`).digest("hex")}`;
  const given = Buffer.from(String(headers["x-slack-signature"]));
  return given.length === wanted.length && timingSafeEqual(given, Buffer.from(wanted));
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}
