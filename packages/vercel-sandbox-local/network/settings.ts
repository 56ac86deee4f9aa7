import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createSecureContext, type SecureContext } from "node:tls";
import type { ResolvedOptions } from "../options.ts";
import { listedLoopbackPorts } from "./addresses.ts";
import { systemCertificates } from "./certificates.ts";
import type { NetworkSettings } from "./gateway.ts";
import { loopbackPorts } from "./host-ports.ts";

/** The path of a unix socket has at most 107 bytes. */
const maxDirectoryChars = 80;

export interface Network {
  settings: NetworkSettings;
  /** Contains a directory for each running session. */
  directory: string;
  /** The loopback ports of this machine that every sandbox may reach now. */
  hostPorts(): number[];
  close(): void;
}

export function openNetwork(
  dataDir: string,
  { network, onLog }: ResolvedOptions,
  ownPort: () => number,
): Network {
  const directory = shortDirectory(path.join(dataDir, "net"));
  const certificates = systemCertificates();
  let context: SecureContext | undefined;
  return {
    directory,
    settings: {
      allowPrivate: network.allowPrivate,
      allowNamedPrivate: network.allowNamedPrivate,
      resolve: network.resolve,
      ownPort,
      systemCertificates: certificates,
      // Parsing the certificates takes a while, so they are parsed once.
      get secureContext() {
        context ??= createSecureContext({ ca: [certificates, ...network.trustedCertificates] });
        return context;
      },
      onLog,
    },
    hostPorts() {
      if (network.allowPrivate !== "all") return listedLoopbackPorts(network.allowPrivate);
      return loopbackPorts().filter((port) => port !== ownPort());
    },
    close: () => rmSync(directory, { recursive: true, force: true }),
  };
}

function shortDirectory(preferred: string): string {
  if (preferred.length > maxDirectoryChars) return mkdtempSync(path.join(shortTemp(), "vsl-"));
  // A process that was killed leaves it behind.
  rmSync(preferred, { recursive: true, force: true });
  mkdirSync(preferred, { recursive: true, mode: 0o700 });
  return preferred;
}

function shortTemp(): string {
  return tmpdir().length < maxDirectoryChars - 16 || !existsSync("/tmp") ? tmpdir() : "/tmp";
}
