import {
  type ClientRequest,
  createServer,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
  type ServerResponse,
  STATUS_CODES,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { isIP, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { isReachable, type Target, targetsOf } from "./addresses.ts";
import type { Authority } from "./certificates.ts";
import type { Destination, NetworkSettings } from "./gateway.ts";
import { linkStreams } from "./link.ts";
import { type MatchedRequest, type Rule, ruleFor } from "./policy.ts";

const tlsHandshake = 0x16;
const sniffTimeoutMs = 30_000;

interface InterceptorOptions {
  authority: Authority;
  settings: NetworkSettings;
  /** The rules at this moment. */
  rulesFor(destination: Destination): readonly Rule[];
  /** Undefined if the sandbox may not reach it (any more). */
  targetFor(destination: Destination): Promise<Target | undefined>;
}

interface Origin extends Destination {
  isTls: boolean;
}

/** A request that is being passed on, or the connection that came of it. */
interface Exchange {
  origin: Origin;
  wanted: MatchedRequest;
  treatment: string;
  cut(): void;
}

interface Opened {
  outgoing: ClientRequest;
  rule: Rule | undefined;
}

/** Reads the requests to hosts that have rules, and applies the rules. TLS ends here and starts anew. */
export interface Interceptor {
  accept(socket: Socket, destination: Destination): void;
  /** Cuts the requests in flight that the policy would now treat differently. */
  recheck(): void;
  close(): void;
}

export function createInterceptor(options: InterceptorOptions): Interceptor {
  const { authority, settings, rulesFor, targetFor } = options;
  const origins = new WeakMap<Duplex, Origin>();
  const httpAgent = new HttpAgent({ keepAlive: true });
  let httpsAgent: HttpsAgent | undefined;
  const exchanges = new Set<Exchange>();
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: 0 });
  server.on("request", (request, response) => {
    serve(request, response).catch(() =>
      fail(response, 502, "The sandbox's gateway could not reach the host."),
    );
  });
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    upgrade(request, socket, head).catch(() => socket.destroy());
  });

  return { accept, recheck, close };

  function accept(socket: Socket, destination: Destination): void {
    socket.setTimeout(sniffTimeoutMs, () => socket.destroy());
    socket.once("readable", () => {
      socket.setTimeout(0);
      const chunk: Buffer | null = socket.read();
      if (chunk === null) return socket.destroy();
      socket.unshift(chunk);
      if (chunk[0] !== tlsHandshake) return take(socket, { ...destination, isTls: false });
      authority.contextFor(destination.host).then(
        (secureContext) => {
          const secure = new TLSSocket(socket, {
            isServer: true,
            secureContext,
            ALPNProtocols: ["http/1.1"],
          });
          secure.on("error", () => socket.destroy());
          take(secure, { ...destination, isTls: true });
        },
        () => socket.destroy(),
      );
    });
  }

  function take(stream: Duplex, origin: Origin): void {
    origins.set(stream, origin);
    server.emit("connection", stream);
  }

  function close(): void {
    server.closeAllConnections();
    httpAgent.destroy();
    httpsAgent?.destroy();
  }

  function recheck(): void {
    for (const { origin, wanted, treatment, cut } of exchanges) {
      if (treatmentOf(ruleFor(rulesFor(origin), wanted)) !== treatment) cut();
      // The address was allowed with the request. Now only the name is asked again.
      else
        targetFor(origin).then(
          (target) => target ?? cut(),
          () => cut(),
        );
    }
  }

  function originOf(request: IncomingMessage): Origin {
    const origin = origins.get(request.socket);
    if (!origin) throw new Error("a request without an origin");
    return origin;
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const origin = originOf(request);
    const wanted = wantedOf(request);
    if (!wanted) return fail(response, 400, "The sandbox's gateway does not accept this path.");
    const opened = await open(request, origin, wanted);
    if (!opened) return fail(response, 403, "The sandbox's network policy does not allow this host.");
    if ("response" in opened) return reply(response, opened.response);
    const { outgoing } = opened;
    const end = begin(origin, wanted, opened.rule, () => {
      outgoing.destroy();
      response.destroy();
    });
    response.on("close", () => {
      end();
      outgoing.destroy();
    });
    outgoing.on("error", () => fail(response, 502, "The sandbox's gateway could not reach the host."));
    outgoing.on("response", (incoming) => {
      response.writeHead(incoming.statusCode ?? 502, incoming.statusMessage, incoming.rawHeaders);
      incoming.on("error", () => response.destroy());
      incoming.on("aborted", () => response.destroy());
      incoming.pipe(response);
    });
    request.pipe(outgoing);
  }

  async function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const origin = originOf(request);
    const wanted = wantedOf(request);
    const opened = wanted && (await open(request, origin, wanted));
    if (!opened || "response" in opened) return void socket.destroy();
    const { outgoing } = opened;
    const end = begin(origin, wanted, opened.rule, () => socket.destroy());
    socket.on("close", () => {
      end();
      outgoing.destroy();
    });
    socket.on("error", () => outgoing.destroy());
    outgoing.on("error", () => socket.destroy());
    outgoing.on("response", (incoming) => {
      socket.write(headOf(incoming));
      incoming.pipe(socket);
    });
    outgoing.on("upgrade", (incoming, target, targetHead) => {
      socket.write(headOf(incoming));
      if (targetHead.length > 0) target.unshift(targetHead);
      if (head.length > 0) socket.unshift(head);
      linkStreams(socket, target);
    });
    outgoing.end();
  }

  function begin(origin: Origin, wanted: MatchedRequest, rule: Rule | undefined, cut: () => void) {
    const exchange = { origin, wanted, treatment: treatmentOf(rule), cut };
    exchanges.add(exchange);
    return () => exchanges.delete(exchange);
  }

  /** The request to the real host or to the rule's `forwardURL`, or the rule's own response. */
  async function open(
    request: IncomingMessage,
    origin: Origin,
    wanted: MatchedRequest,
  ): Promise<Opened | { response: NonNullable<Rule["response"]> } | undefined> {
    for (;;) {
      const rule = ruleFor(rulesFor(origin), wanted);
      if (rule?.response) return { response: rule.response };
      const forward = rule?.forwardURL === undefined ? undefined : new URL(rule.forwardURL);
      const to = forward ? originOfUrl(forward) : origin;
      const target = forward ? await forwardTarget(to) : await targetFor(origin);
      // The policy can be replaced while the name is resolved. Choose again; otherwise a header of the old policy goes
      // out after it was taken back.
      if (ruleFor(rulesFor(origin), wanted) !== rule) continue;
      if (!target) return undefined;
      return { outgoing: send(request, origin, wanted, rule, to, target, forward), rule };
    }
  }

  function send(
    request: IncomingMessage,
    origin: Origin,
    { method, path }: MatchedRequest,
    rule: Rule | undefined,
    to: Origin,
    target: Target,
    forward: URL | undefined,
  ): ClientRequest {
    const headers = headersFor(request, to, {
      ...injected(rule),
      ...(forward && forwardedHeaders(request, origin)),
    });
    const common: RequestOptions = {
      host: target.address,
      port: target.port,
      method,
      path: forward ? forward.pathname : path,
      headers: headers as never,
      setHost: false,
    };
    if (!to.isTls) return httpRequest({ ...common, agent: httpAgent });
    httpsAgent ??= new HttpsAgent({ keepAlive: true, secureContext: settings.secureContext });
    return httpsRequest({ ...common, agent: httpsAgent, servername: isIP(to.host) ? "" : to.host });
  }

  async function forwardTarget({ host, port }: Origin): Promise<Target | undefined> {
    const targets = await targetsOf(host, port, settings);
    return targets.find((target) => isReachable(host, target, settings, false));
  }
}

const dotSegment = /(^|[\\/]|%2f|%5c)(\.|%2e){1,2}([\\/]|%2f|%5c|$)/i;

/**
 * What rules are matched with, and what is sent. Undefined for a path that the server could read differently than the
 * rules: `/allowed/..%2fother` would get the header of `/allowed/`.
 */
function wantedOf({ method = "GET", url = "/", rawHeaders }: IncomingMessage): MatchedRequest | undefined {
  const [pathname = ""] = url.split(/[?#]/, 1);
  if (!pathname.startsWith("/") || pathname.includes("\\") || dotSegment.test(pathname)) return undefined;
  return { method, path: url, headers: pairs(rawHeaders) };
}

/** What a rule does to a request, for comparison. */
function treatmentOf(rule: Rule | undefined): string {
  const { transform, forwardURL, response } = rule ?? {};
  return JSON.stringify([injected({ transform }), forwardURL ?? null, response ?? null]);
}

/**
 * The request's headers with the injected ones. `Host` is always the destination: with another one, a server of many
 * customers would hand the injected secret to somebody else.
 */
function headersFor(request: IncomingMessage, to: Origin, extra: Record<string, string>): string[] {
  const set = new Set(["host", ...Object.keys(extra).map((name) => name.toLowerCase())]);
  const kept = pairs(request.rawHeaders).filter(([name]) => !set.has(name.toLowerCase()));
  const standard = to.isTls ? 443 : 80;
  const host = isIP(to.host) === 6 ? `[${to.host}]` : to.host;
  const all = [
    ["Host", to.port === standard ? host : `${host}:${to.port}`],
    ...kept,
    ...Object.entries(extra),
  ];
  return all.flat();
}

function injected(rule: Rule | undefined): Record<string, string> {
  return Object.assign({}, ...(rule?.transform ?? []).map(({ headers = {} }) => headers));
}

/** As `defineSandboxProxy` of the SDK reads them. There is no OIDC token, because only Vercel can sign one. */
function forwardedHeaders(request: IncomingMessage, origin: Origin): Record<string, string> {
  return {
    "vercel-forwarded-host": origin.host,
    "vercel-forwarded-scheme": origin.isTls ? "https" : "http",
    "vercel-forwarded-port": String(origin.port),
    "vercel-forwarded-path": request.url ?? "/",
  };
}

function originOfUrl(url: URL): Origin {
  const isTls = url.protocol === "https:";
  return { host: url.hostname, port: Number(url.port) || (isTls ? 443 : 80), isTls };
}

function reply(
  response: ServerResponse,
  { statusCode, headers, body, contentType }: NonNullable<Rule["response"]>,
) {
  response.writeHead(statusCode, { ...headers, ...(contentType && { "content-type": contentType }) });
  response.end(body);
}

function fail(response: ServerResponse, status: number, text: string): void {
  if (response.headersSent) return void response.destroy();
  response.writeHead(status, { "content-type": "text/plain", connection: "close" }).end(`${text}\n`);
}

function headOf({ statusCode = 502, rawHeaders }: IncomingMessage): string {
  const lines = pairs(rawHeaders).map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode] ?? ""}`, ...lines, "", ""].join("\r\n");
}

function pairs(raw: readonly string[]): [string, string][] {
  const list: [string, string][] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) list.push([raw[index] ?? "", raw[index + 1] ?? ""]);
  return list;
}
