import { randomBytes } from "node:crypto";
import { z } from "zod";
import type { Resolve } from "./network/addresses.ts";

const hourMs = 3_600_000;
const mb = 1024 * 1024;
const ms = z.number().int().min(0);
const bytes = z.number().int().positive();

const Latency = z.object({
  /** Added to each create and resume. */
  createMs: ms.default(0),
  /** Minimum duration of `npm install`, `i`, `ci` and `add`. */
  installMs: ms.default(0),
  /** How long a session stays in `stopping`. */
  stopMs: ms.default(0),
});

const ProcessLimits = z.object({
  /** Processes and threads of a sandbox. */
  processes: z.number().int().positive().default(4_096),
  /** Memory of all processes of a sandbox. By default what its vCPUs come with. */
  memoryBytes: bytes.optional(),
  /** For each process: open files, and the size of a file. */
  openFiles: z.number().int().positive().default(16_384),
  fileBytes: bytes.default(8 * 1024 * mb),
  /** Memory that a process can write. Off: some runtimes reserve much more than they use. */
  dataBytes: bytes.optional(),
});

const Limits = z.object({
  /** Beyond this, a create or resume answers 429. */
  maxSandboxes: z.number().int().positive().default(2_000),
  retryAfterSeconds: z.number().int().min(0).default(1),
  minTimeoutMs: ms.default(1_000),
  maxTimeoutMs: ms.default(24 * hourMs),
  defaultTimeoutMs: ms.default(hourMs / 12),
  maxTags: z.number().int().default(5),
  maxPorts: z.number().int().default(15),
  maxJsonBytes: bytes.default(2 * mb),
  /** The compressed body of one write. */
  maxUploadBytes: bytes.default(256 * mb),
  /** Unpacked size of one write, in total and per file. */
  maxUnpackedBytes: bytes.default(1024 * mb),
  maxEntryBytes: bytes.default(512 * mb),
  maxEntries: z.number().int().positive().default(20_000),
  maxSnapshotBytes: bytes.default(8 * 1024 * mb),
  /** Per command. The rest is dropped and the log says so. */
  maxLogBytes: bytes.default(64 * mb),
  defaultSnapshotExpirationMs: ms.default(30 * 24 * hourMs),
  process: ProcessLimits.prefault({}),
});

const hostAndPort = z.string().regex(/^(\[[0-9a-fA-F:]+\]|[^:/\s]+):\d{1,5}$/, "must be host:port");

const Network = z.object({
  /**
   * Private and loopback addresses that sandboxes may reach, as `host:port`. "all" opens private networks, 127.0.0.1 and
   * ::1, but no other loopback address and not the API itself: put services that no sandbox may reach on 127.0.0.2.
   */
  allowPrivate: z.union([z.literal("all"), z.array(hostAndPort)]).default([]),
  /**
   * Lets a policy open a private address, or 127.0.0.1 and ::1, by an entry for its host and port, such as
   * `allow: { "127.0.0.1:4000": [] }`. Callers of the API can then choose which services of this machine a sandbox sees.
   */
  allowNamedPrivate: z.boolean().default(false),
  /** Certificates that the gateway trusts beside the machine's own, in PEM. */
  trustedCertificates: z.array(z.string()).default([]),
  /** Resolves names in place of the host, for tests. */
  resolve: z.custom<Resolve>((value) => typeof value === "function").optional(),
});

const Options = z.object({
  dataDir: z.string().min(1),
  port: z.number().int().min(0).max(65_535).default(0),
  host: z.string().default("127.0.0.1"),
  /** Accepted bearer tokens. By default one random token, which `startSandboxApi` returns. */
  tokens: z
    .array(z.string().min(1))
    .min(1)
    .default(() => [randomBytes(24).toString("base64url")]),
  /** Enables the control routes, which need this token. */
  controlToken: z.string().min(1).optional(),
  isolation: z.enum(["auto", "bwrap", "none"]).default("auto"),
  latency: Latency.prefault({}),
  limits: Limits.prefault({}),
  network: Network.prefault({}),
  onLog: z.custom<(line: string) => void>((value) => typeof value === "function").default(() => () => {}),
});

export type Latency = z.infer<typeof Latency>;
export type Limits = z.infer<typeof Limits>;
export type SandboxApiOptions = z.input<typeof Options>;
export type ResolvedOptions = z.infer<typeof Options>;

export function resolveOptions(options: SandboxApiOptions): ResolvedOptions {
  return Options.parse(options);
}

export const LatencyChange = z.object({
  createMs: ms.optional(),
  installMs: ms.optional(),
  stopMs: ms.optional(),
});
