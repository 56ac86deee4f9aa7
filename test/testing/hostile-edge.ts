import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface StrangeAnswer {
  status: number;
  headers?: Record<string, string>;
  body?: string;
}

/** What a firewall, a login page or a misrouted edge answers in Concierge's place. */
export const strangeAnswers: readonly StrangeAnswer[] = [
  { status: 401, headers: { "www-authenticate": 'Basic realm="proxy"' }, body: "Unauthorized" },
  { status: 403, headers: { "content-type": "text/html" }, body: "<h1>Request blocked</h1>" },
  { status: 404, headers: { "content-type": "application/json" }, body: '{"message":"Not Found"}' },
  { status: 409, headers: { "content-type": "application/json" }, body: '{"code":"conflict"}' },
  { status: 200, headers: { "content-type": "text/html" }, body: "<form action=/login></form>" },
  { status: 302, headers: { location: "https://login.invalid/" } },
];

export const firewall: readonly StrangeAnswer[] = strangeAnswers.filter(({ status }) => status === 403);

/** Between runners and the api: forwards requests, or answers them itself, each time differently. */
export async function startHostileEdge(answers = strangeAnswers) {
  let target: string | undefined;
  let isHostile: (taskId: string) => boolean = () => false;
  let refused = 0;
  const server = createServer((incoming, outgoing) => {
    const [taskId = ""] = String(incoming.headers["x-concierge-turn"]).split("/");
    if (isHostile(taskId)) return void answerInItsPlace(incoming, outgoing);
    if (target === undefined) return void outgoing.writeHead(503).end();
    passOn(target, incoming, outgoing);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));

  async function answerInItsPlace(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    await incoming.resume().toArray();
    const {
      status,
      headers,
      body = "",
    } = answers[refused++ % answers.length] ?? {
      status: 403,
    };
    outgoing.writeHead(status, headers).end(body);
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    leadTo(url: string): void {
      target = url;
    },
    /** For every runner, for none, or for those of the matching tasks. */
    setHostile(hostile: boolean | ((taskId: string) => boolean)): void {
      isHostile = typeof hostile === "boolean" ? () => hostile : hostile;
    },
    refused: () => refused,
    async [Symbol.asyncDispose](): Promise<void> {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

function passOn(target: string, incoming: IncomingMessage, outgoing: ServerResponse): void {
  const { method, headers, url } = incoming;
  const forwarded = request(new URL(url ?? "/", target), { method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(outgoing);
  });
  forwarded.on("error", () => outgoing.destroy());
  incoming.pipe(forwarded);
}
