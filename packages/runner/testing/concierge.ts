import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import {
  type AgentEvent,
  type EndPost,
  type FinalizePost,
  type GitCredential,
  type OutputPost,
  type RunnerAction,
  runnerPaths,
  type Stream,
  turnHeader,
} from "@concierge/protocol";

export interface Post {
  kind: keyof typeof runnerPaths;
  authorization: string | undefined;
  body: string;
  atMs: number;
}

/** In PEM. */
export interface Tls {
  key: string;
  cert: string;
}

/** `drop`: the connection breaks before the post is accepted. `lose`: it is accepted, but the answer is lost. */
export type Behaviour =
  | { action: RunnerAction | "go" }
  | { status: number; headers?: Record<string, string>; body?: string }
  /** A proxy answers instead of Concierge. */
  | { proxy: { status: number; headers?: Record<string, string>; body?: string } }
  | "drop"
  | "lose"
  | "hang";

const kindOfPath = new Map(
  Object.entries(runnerPaths).map(([kind, path]) => [path as string, kind as Post["kind"]]),
);

/** Plays Concierge over real HTTP. Accepts batches once and in order, as the api does, and records all posts. */
export class FakeConcierge implements AsyncDisposable {
  readonly posts: Post[] = [];
  /** Batches that came out of order, or again with other bytes. */
  readonly faults: string[] = [];
  readonly batches: string[] = [];
  end: EndPost | undefined;
  finalize: FinalizePost | undefined;
  /** The credential in its grants. */
  credential: GitCredential | null = null;
  behave: (post: Post, nth: number) => Behaviour = accept;
  private server: Server | undefined;
  private port = 0;
  private readonly tls: Tls | undefined;

  private constructor(tls: Tls | undefined) {
    this.tls = tls;
  }

  static async start(tls?: Tls): Promise<FakeConcierge> {
    const concierge = new FakeConcierge(tls);
    await concierge.up();
    return concierge;
  }

  get url(): string {
    return this.tls ? `https://localhost:${this.port}` : `http://127.0.0.1:${this.port}`;
  }

  async up(): Promise<void> {
    const answer = (request: IncomingMessage, response: ServerResponse) =>
      void this.answer(request, response);
    const server = this.tls ? createTlsServer(this.tls, answer) : createServer(answer);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.port, "127.0.0.1", resolve);
    });
    this.port = (server.address() as AddressInfo).port;
    this.server = server;
  }

  async down(): Promise<void> {
    const server = this.server;
    this.server = undefined;
    if (server === undefined) return;
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.down();
  }

  of(kind: Post["kind"]): Post[] {
    return this.posts.filter((post) => post.kind === kind);
  }

  chunks(): { stream: Stream; bytes: Buffer }[] {
    return this.batches
      .flatMap((body) => (JSON.parse(body) as OutputPost).chunks)
      .flatMap((chunk) =>
        "agent" in chunk ? [] : [{ stream: chunk.stream, bytes: Buffer.from(chunk.data, "base64") }],
      );
  }

  events(): AgentEvent[] {
    return this.batches
      .flatMap((body) => (JSON.parse(body) as OutputPost).chunks)
      .flatMap((chunk) => ("agent" in chunk ? [chunk.agent] : []));
  }

  bytes(stream: Stream): Buffer {
    return Buffer.concat(this.chunks().flatMap((chunk) => (chunk.stream === stream ? [chunk.bytes] : [])));
  }

  text(stream: Stream): string {
    return this.bytes(stream).toString();
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    const kind = kindOfPath.get(request.url ?? "");
    if (kind === undefined || body === undefined) return void response.destroy();
    const post = { kind, authorization: request.headers.authorization, body, atMs: performance.now() };
    this.posts.push(post);
    const behaviour = this.behave(post, this.posts.length);
    if (behaviour === "hang") return;
    if (behaviour === "drop") return void response.destroy();
    if (behaviour === "lose") {
      this.accept(post);
      return void response.destroy();
    }
    if ("proxy" in behaviour) {
      const { status, headers, body = "" } = behaviour.proxy;
      return void response.writeHead(status, headers).end(body);
    }
    const mark = { [turnHeader]: String(request.headers[turnHeader]) };
    if ("status" in behaviour) {
      const { status, headers, body = '{"code":"some_code"}' } = behaviour;
      return void response.writeHead(status, { ...mark, ...headers }).end(body);
    }
    const { action } = behaviour;
    if (action !== "stop" && action !== "wait") this.accept(post);
    const answer = action === "go" ? { action, credential: this.credential } : { action };
    response.writeHead(200, { ...mark, "content-type": "application/json" }).end(JSON.stringify(answer));
  }

  private accept({ kind, body }: Post): void {
    if (kind === "end") this.end = JSON.parse(body) as EndPost;
    if (kind === "finalize") this.finalize = JSON.parse(body) as FinalizePost;
    if (kind !== "output") return;
    const { seq } = JSON.parse(body) as OutputPost;
    if (seq === this.batches.length + 1) this.batches.push(body);
    else if (this.batches[seq - 1] !== body) this.faults.push(`batch ${seq} after ${this.batches.length}`);
  }
}

export function accept({ kind }: Post): Behaviour {
  switch (kind) {
    case "clone":
    case "finalize":
      return { action: "go" };
    case "end":
      return { action: "done" };
    default:
      return { action: "continue" };
  }
}

export function stopWhen(concierge: FakeConcierge, isTime: (post: Post) => boolean): void {
  concierge.behave = (post) => (isTime(post) ? { action: "stop" } : accept(post));
}

async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const parts: Buffer[] = [];
  try {
    for await (const part of request) parts.push(part as Buffer);
    return Buffer.concat(parts).toString();
  } catch {
    return undefined;
  }
}
