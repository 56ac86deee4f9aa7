import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import path from "node:path";
import type { SecureContext } from "node:tls";
import { z } from "zod";
import { type AddressRules, isReachable, loopbackNames, type Target, targetsOf } from "./addresses.ts";
import { createAuthority } from "./certificates.ts";
import { createInterceptor } from "./intercept.ts";
import { linkStreams } from "./link.ts";
import { compilePolicy, type NetworkPolicyRequest, type Policy } from "./policy.ts";

const maxConnections = 1_000;
const maxRequestBytes = 2_000;
const dialTimeoutMs = 10_000;
const accepted = Buffer.of(1);
const refused = Buffer.of(0);

const Host = z.string().min(1).max(255);
const Port = z.number().int().min(1).max(65_535);
// What `isolation/init/network.mjs` sends. Any program in the sandbox can send it too.
const Request = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("connect"), host: Host, port: Port }),
  z.object({ kind: z.literal("resolve"), host: Host }),
  z.object({ kind: z.literal("dialed"), dialId: z.string(), failed: z.boolean().default(false) }),
]);

export interface NetworkSettings extends AddressRules {
  /** The machine's certificates, in PEM. */
  systemCertificates: string;
  /** What the gateway trusts when it connects in place of a sandbox. */
  readonly secureContext: SecureContext;
  onLog(line: string): void;
}

/** The only way out of one sandbox's network, and the only way in. */
export interface Gateway {
  /** To be mounted in the sandbox: the socket and the certificates. */
  readonly directory: string;
  /** In force for the next connection and the next request. Connections that it would treat differently are cut. */
  setPolicy(policy: NetworkPolicyRequest): void;
  /** The ports, beside the standard ones, that the policy names. */
  ports(): GatewayPorts;
  /** A connection to a port in the sandbox. `ask` has to make init call back with the id. */
  dial(ask: (dialId: string) => Promise<void>): Promise<Socket>;
  close(): void;
}

export interface Destination {
  host: string;
  port: number;
}

export interface GatewayPorts {
  /** Of the host's loopback addresses. */
  loopback: number[];
  /** Of other hosts. */
  remote: number[];
}

/** A connection whose bytes the gateway passes on unread. */
interface Tunnel {
  socket: Socket;
  destination: Destination;
  address: string;
}

export async function openGateway(
  directory: string,
  settings: NetworkSettings,
  initialPolicy: NetworkPolicyRequest,
): Promise<Gateway> {
  // First: the caller starts the sandbox with this directory at once. The rest is there before the first command.
  mkdirSync(directory, { recursive: true, mode: 0o755 });
  const authority = await createAuthority();
  const dials = new Map<string, PromiseWithResolvers<Socket>>();
  const open = new Set<Socket>();
  const tunnels = new Set<Tunnel>();
  let policy = compilePolicy(initialPolicy);

  const interceptor = createInterceptor({
    authority,
    settings,
    rulesFor: ({ host, port }) => policy.entryFor(host, port)?.rules ?? [],
    targetFor: (destination) => allowedTarget(destination, policy, settings),
  });

  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => open.delete(socket));
    readRequest(socket)
      .then((request) => answer(socket, request))
      .catch(() => refuse(socket));
  });
  server.maxConnections = maxConnections;

  async function answer(socket: Socket, request: z.infer<typeof Request>): Promise<void> {
    switch (request.kind) {
      case "resolve": {
        const found = await resolvable(request.host, policy, settings);
        socket.end(found ? accepted : refused);
        return;
      }
      case "connect":
        return forward(socket, request);
      case "dialed": {
        const dial = dials.get(request.dialId);
        if (!dial || request.failed) refuse(socket);
        if (request.failed) return dial?.reject(new Error("nothing listens on this port"));
        socket.write(accepted);
        return dial?.resolve(socket);
      }
    }
  }

  async function forward(socket: Socket, destination: Destination): Promise<void> {
    const allowed = await allowedTarget(destination, policy, settings);
    if (!allowed) {
      settings.onLog(`refused: ${destination.host}:${destination.port}`);
      return refuse(socket);
    }
    // The policy of this moment: it may have changed while the name was resolved.
    if (hasRules(destination)) {
      socket.write(accepted);
      return interceptor.accept(socket, destination);
    }
    const target = connect({ host: allowed.address, port: allowed.port, allowHalfOpen: true });
    const tunnel: Tunnel = { socket, destination, address: allowed.address };
    tunnels.add(tunnel);
    socket.once("close", () => {
      tunnels.delete(tunnel);
      target.destroy();
    });
    open.add(target);
    target.once("close", () => open.delete(target));
    target.once("error", () => refuse(socket));
    target.once("connect", () => {
      target.setNoDelay(true);
      socket.write(accepted);
      linkStreams(socket, target);
    });
  }

  function hasRules({ host, port }: Destination): boolean {
    return (policy.entryFor(host, port)?.rules.length ?? 0) > 0;
  }

  writeFileSync(path.join(directory, "ca.pem"), authority.certificate);
  writeFileSync(
    path.join(directory, "bundle.pem"),
    `${settings.systemCertificates}\n${authority.certificate}\n`,
  );
  await listen(server, path.join(directory, "gateway"));

  return {
    directory,
    setPolicy(request) {
      policy = compilePolicy(request);
      // An open tunnel would go around the new rules. A client that keeps connections alive connects again.
      for (const { socket, destination, address } of tunnels) {
        if (hasRules(destination) || !isAllowed(destination, address, policy)) socket.destroy();
      }
      interceptor.recheck();
    },
    ports() {
      const loopback = (host: string) => loopbackNames.has(host);
      const named = policy.hostsWithPort;
      return {
        loopback: named.flatMap(({ host, port }) => (loopback(host) ? [port] : [])),
        remote: named.flatMap(({ host, port }) => (loopback(host) ? [] : [port])),
      };
    },
    async dial(ask) {
      const dialId = randomBytes(16).toString("hex");
      const dialed = Promise.withResolvers<Socket>();
      dials.set(dialId, dialed);
      const timer = setTimeout(() => dialed.reject(new Error("the sandbox did not answer")), dialTimeoutMs);
      try {
        await ask(dialId);
        return await dialed.promise;
      } finally {
        clearTimeout(timer);
        dials.delete(dialId);
      }
    },
    close() {
      server.close();
      interceptor.close();
      for (const socket of open) socket.destroy();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Where to connect to, or undefined if this sandbox may not reach it. */
async function allowedTarget(
  destination: Destination,
  policy: Policy,
  settings: NetworkSettings,
): Promise<Target | undefined> {
  const { host, port } = destination;
  const entry = policy.entryFor(host, port);
  // Do not resolve a name that cannot be allowed: a lookup carries data out.
  if (!entry && !policy.allowsAddresses) return undefined;
  const targets = await targetsOf(host, port, settings);
  return targets.find(
    (target) =>
      isAllowed(destination, target.address, policy) &&
      isReachable(host, target, settings, entry?.isExact ?? false),
  );
}

function isAllowed({ host, port }: Destination, address: string, policy: Policy): boolean {
  if (policy.deniesAddress(address)) return false;
  return policy.entryFor(host, port) !== undefined || policy.allowsAddress(address);
}

async function resolvable(host: string, policy: Policy, settings: NetworkSettings): Promise<boolean> {
  if (!policy.names(host) && !policy.allowsAddresses) return false;
  return (await targetsOf(host, 0, settings)).length > 0;
}

/** Reads the first line. What follows it stays in the stream. */
function readRequest(socket: Socket): Promise<z.infer<typeof Request>> {
  const { promise, resolve, reject } = Promise.withResolvers<z.infer<typeof Request>>();
  let read = Buffer.alloc(0);
  const take = () => {
    for (let chunk = socket.read(); chunk !== null; chunk = socket.read()) {
      read = Buffer.concat([read, chunk]);
      const end = read.indexOf("\n");
      if (end < 0 && read.length < maxRequestBytes) continue;
      socket.off("readable", take);
      if (end < 0) return reject(new Error("the request is too long"));
      if (end + 1 < read.length) socket.unshift(read.subarray(end + 1));
      try {
        return resolve(Request.parse(JSON.parse(read.toString("utf8", 0, end))));
      } catch (error) {
        return reject(error);
      }
    }
  };
  socket.on("readable", take);
  socket.once("close", () => reject(new Error("closed")));
  return promise;
}

function refuse(socket: Socket): void {
  if (socket.destroyed) return;
  socket.end(refused, () => socket.destroy());
}

function listen(server: Server, file: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(file, resolve);
  });
}
